package lease_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/graphsubd/graphsubd/internal/lease"
)

func elector(t *testing.T, path string) *lease.File {
	t.Helper()
	f, err := lease.NewFile(lease.FileConfig{
		Path: path, Election: "test", RetryPeriod: 5 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestOnlyOneLeads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lease")
	first, second := make(chan struct{}), make(chan struct{})
	firstEnded := make(chan struct{})
	firstCtx, stopFirst := context.WithCancel(t.Context())
	firstDone := make(chan error, 1)
	go func() {
		firstDone <- elector(t, path).Run(firstCtx, func(ctx context.Context) error {
			close(first)
			<-ctx.Done()
			close(firstEnded)
			return nil
		})
	}()
	<-first
	secondCtx, stopSecond := context.WithCancel(t.Context())
	secondDone := make(chan error, 1)
	go func() {
		secondDone <- elector(t, path).Run(secondCtx, func(ctx context.Context) error {
			select {
			case <-firstEnded:
			default:
				t.Error("two lead at once")
			}
			close(second)
			<-ctx.Done()
			return nil
		})
	}()
	stopFirst()
	if err := <-firstDone; err != nil {
		t.Error(err)
	}
	<-second
	stopSecond()
	if err := <-secondDone; err != nil {
		t.Error(err)
	}
}

func TestBodyThatFailsIsRunAgain(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	runs := 0
	err := elector(t, filepath.Join(t.TempDir(), "lease")).Run(ctx, func(context.Context) error {
		if runs++; runs == 3 {
			stop()
		}
		return errors.New("no luck")
	})
	if err != nil || runs != 3 {
		t.Errorf("%d runs, %v", runs, err)
	}
}

func TestLockThatCannotBeMadeMeansNotLeading(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	err := elector(t, filepath.Join(t.TempDir(), "missing", "lease")).Run(ctx, func(context.Context) error {
		t.Error("leads without a lock")
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
