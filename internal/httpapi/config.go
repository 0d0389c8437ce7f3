package httpapi

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The defaults of Config.
const (
	// DefaultMaxBody is well above a full rich batch; Graph documents no
	// largest size for webhooks.
	DefaultMaxBody = 8 << 20
	// DefaultMaxInFlight is some times what Graph is known to send at once.
	DefaultMaxInFlight = 1024
	// DefaultAppendTimeout leaves a second of the three within which Graph
	// wants its first attempt answered.
	DefaultAppendTimeout = 2 * time.Second

	// bodiesHeld times MaxBody is what all requests together may hold.
	bodiesHeld = 8
)

// Config is the configuration of the receiver. A zero field means its default.
type Config struct {
	// PublicURL is how Graph reaches the receiver; its path is the base of
	// every route. It has no default.
	PublicURL string
	// MaxBody is the largest body in bytes, after decompression.
	MaxBody int64
	// MaxBuffered is how many bytes of bodies all requests together may
	// hold: 8 × MaxBody by default, and in any case more than MaxBody.
	MaxBuffered int64
	// MaxInFlight is how many notifications may be under way at once.
	// Handshakes do not count.
	MaxInFlight int
	// AppendTimeout bounds all that the store is asked for one POST.
	AppendTimeout time.Duration
	// Marks are Graph's limits for slow answers; DefaultMarks without any.
	Marks Marks
	// AllowedSources may send, all when it is empty. A client is who the
	// TrustedProxies say it is.
	TrustedProxies, AllowedSources []netip.Prefix
	// Logger gets states and their changes; nil means none.
	Logger *slog.Logger
	// Registerer takes the metrics; nil means that none are exposed.
	Registerer prometheus.Registerer
}

func (c Config) withDefaults() Config {
	c.MaxBody = cmp.Or(c.MaxBody, DefaultMaxBody)
	c.MaxBuffered = cmp.Or(c.MaxBuffered, bodiesHeld*c.MaxBody)
	c.MaxInFlight = cmp.Or(c.MaxInFlight, DefaultMaxInFlight)
	c.AppendTimeout = cmp.Or(c.AppendTimeout, DefaultAppendTimeout)
	c.Marks = cmp.Or(c.Marks, DefaultMarks())
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	return c
}

func (c Config) validate() error {
	var faults []error
	if c.MaxBody < 0 {
		faults = append(faults, fmt.Errorf("MaxBody is %d, it must be positive", c.MaxBody))
	}
	if c.MaxBuffered <= c.MaxBody {
		faults = append(faults, fmt.Errorf("MaxBuffered is %d, it must be above MaxBody, %d", c.MaxBuffered, c.MaxBody))
	}
	if c.MaxInFlight < 0 {
		faults = append(faults, fmt.Errorf("MaxInFlight is %d, it must be positive", c.MaxInFlight))
	}
	if c.AppendTimeout < 0 {
		faults = append(faults, fmt.Errorf("AppendTimeout is %s, it must be positive", c.AppendTimeout))
	}
	return errors.Join(faults...)
}

// basePath gives the path of the public URL in lower case, without a slash at
// its end.
func (c Config) basePath() (string, error) {
	public, err := url.Parse(c.PublicURL)
	if err != nil || public.Host == "" {
		return "", errors.New("PublicURL is not an absolute URL")
	}
	return strings.ToLower(strings.TrimRight(public.Path, "/")), nil
}
