package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settle is how long files have to be quiet before they are read: an editor
// or a kubelet changes several of them in a row.
const settle = 250 * time.Millisecond

// watchFiles says on a channel that the configuration at path, or a file that
// it includes, may have changed, and also at SIGHUP. Directories are watched
// and not files, because editors and Kubernetes replace files by new ones.
// stop ends the watch and waits for it.
func watchFiles(ctx context.Context, path string, include []string, log *slog.Logger) (changed <-chan struct{}, stop func(), err error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, nil, fmt.Errorf("watch the configuration: %w", err)
	}
	patterns := watched(path, include)
	for _, pattern := range patterns {
		if err := watcher.Add(filepath.Dir(pattern)); err != nil {
			return nil, nil, errors.Join(fmt.Errorf("watch the configuration: %w", err), watcher.Close())
		}
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	tell := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { gather(ctx, watcher, patterns, hangup, tell, log) })
	return tell, func() {
		signal.Stop(hangup)
		cancel()
		running.Wait()
		_ = watcher.Close()
	}, nil
}

// watched gives the patterns of the files that belong to the configuration.
func watched(path string, include []string) []string {
	patterns := []string{filepath.Clean(path)}
	for _, pattern := range include {
		if !filepath.IsAbs(pattern) {
			pattern = filepath.Join(filepath.Dir(path), pattern)
		}
		patterns = append(patterns, filepath.Clean(pattern))
	}
	return patterns
}

// concerns says whether a changed file belongs to the configuration. A mounted
// ConfigMap changes by its link ..data. The store and a file sink may lie in
// the same directory and change all the time.
func concerns(patterns []string, changed string) bool {
	for _, pattern := range patterns {
		if filepath.Dir(changed) == filepath.Dir(pattern) && filepath.Base(changed) == "..data" {
			return true
		}
		if matches, err := filepath.Match(pattern, filepath.Clean(changed)); err == nil && matches {
			return true
		}
	}
	return false
}

// gather turns many events into few: one after a quiet moment, and one at once
// for each SIGHUP.
func gather(ctx context.Context, watcher *fsnotify.Watcher, patterns []string, hangup <-chan os.Signal, tell chan<- struct{}, log *slog.Logger) {
	quiet := time.NewTimer(0)
	<-quiet.C
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-watcher.Events:
			if concerns(patterns, event.Name) {
				quiet.Reset(settle)
			}
			continue
		case err := <-watcher.Errors:
			log.WarnContext(ctx, "configuration is not watched reliably, use SIGHUP", "error", err.Error())
			continue
		case <-quiet.C:
		case <-hangup:
		}
		select {
		case tell <- struct{}{}:
		default: // it is told already
		}
	}
}
