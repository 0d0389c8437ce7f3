package app

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/graphsubd/graphsubd/internal/config"
)

// What was refused is read again, since a secret may come after the file that
// names it; the same refusal is said once.
func TestRefusedConfigurationIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		changed, reads := make(chan struct{}, 1), 0
		a := &App{
			log: slog.New(slog.NewTextHandler(&log, nil)), reloaded: prometheus.NewGauge(prometheus.GaugeOpts{Name: "x", Help: "None."}),
			opts: Options{Changed: changed, Load: func() (*config.Config, error) {
				reads++
				return nil, errors.New("no such file")
			}},
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.watchConfig(ctx) }()
		time.Sleep(time.Hour)
		synctest.Wait()
		if reads != 0 {
			t.Errorf("read %d times without a reason", reads)
		}
		changed <- struct{}{}
		time.Sleep(refusedAgain*5 + time.Second)
		synctest.Wait()
		if reads != 6 || strings.Count(log.String(), "no such file") != 1 {
			t.Errorf("read %d times, said:\n%s", reads, log.String())
		}
		changed <- struct{}{}
		synctest.Wait()
		if strings.Count(log.String(), "no such file") != 2 {
			t.Errorf("not said to whoever asked:\n%s", log.String())
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
