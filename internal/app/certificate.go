package app

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/graphsubd/graphsubd/internal/config"
)

// certificateAge is how old what was read of a certificate may be when it is
// used: whoever replaces the files needs to tell nobody.
const certificateAge = 10 * time.Second

// certificate is the key pair of a listener.
type certificate struct {
	name string // the listener's key in the configuration
	cfg  config.ServerTLS
	log  *slog.Logger

	mu   sync.Mutex
	read time.Time        // guarded by mu
	pair *tls.Certificate // guarded by mu; the last that was good
	bad  bool             // guarded by mu; the files hold no good one
}

// serverTLS gives the TLS settings of a listener, nil when it has none.
func (a *App) serverTLS(name string, cfg *config.ServerTLS) (*tls.Config, error) {
	if cfg == nil {
		return nil, nil //nolint:nilnil // That is how http.Server writes it.
	}
	c := &certificate{name: name, cfg: *cfg, log: a.log}
	var err error
	if c.pair, err = c.load(); err != nil {
		return nil, fmt.Errorf("%s.tls: %w", name, err)
	}
	c.read = time.Now()
	expiry := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "graphsubd_certificate_expiry_timestamp_seconds", Help: "When a certificate ends.",
		ConstLabels: prometheus.Labels{"certificate": name},
	}, func() float64 { return float64(c.current().Leaf.NotAfter.Unix()) })
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current(), nil },
	}, a.registry.Register(expiry)
}

// load reads the key pair. The error repeats nothing of it.
func (c *certificate) load() (*tls.Certificate, error) {
	chain, err := c.cfg.Certificate.Current()
	if err != nil {
		return nil, err
	}
	key, err := c.cfg.Key.Current()
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair([]byte(chain), []byte(key))
	if err != nil {
		return nil, errors.New("the certificate and the key are no pair in PEM")
	}
	return &pair, nil
}

// current gives the key pair as it stands in the files, or the last good one:
// the two files are not replaced in one moment.
func (c *certificate) current() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.read) < certificateAge {
		return c.pair
	}
	c.read = time.Now()
	pair, err := c.load()
	switch {
	case err != nil && !c.bad:
		c.log.Error("certificate is not usable, the former one is served", "listener", c.name, "error", err)
	case err == nil && !pair.Leaf.Equal(c.pair.Leaf):
		c.log.Info("certificate replaced", "listener", c.name, "expires_at", pair.Leaf.NotAfter)
	}
	if c.bad = err != nil; !c.bad {
		c.pair = pair
	}
	return c.pair
}
