package app

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/graphsubd/graphsubd/internal/config"
)

// Options is what the process gives beside the configuration.
type Options struct {
	Logger  *slog.Logger
	Stdout  io.Writer // for a file sink whose path is "-"
	Version string
	Commit  string
	// Public is a listener that is bound already, in place of the address in
	// listen.public; nil binds that. New takes it over and closes it.
	Public net.Listener
	// Changed says that the configuration may have changed, and Load reads it
	// anew; without both it is never read again.
	Changed <-chan struct{}
	Load    func() (*config.Config, error)
	// AcceptKeys says that a person knows that the former signing keys are
	// lost: every subscription is made anew under the present ones.
	AcceptKeys bool
}

// The times that a stop may take, by part. Their sum over the steps stays
// below the five seconds that a busy process has, and within any pod's grace
// period; a test adds them up.
const (
	stopLeading  = 2500 * time.Millisecond // a call to Graph under way may finish
	stopHTTP     = 2500 * time.Millisecond // beside leading
	stopDelivery = 2 * time.Second
)

func (o Options) validate(cfg *config.Config) error {
	switch {
	case cfg == nil:
		return errors.New("no configuration")
	case o.Logger == nil || o.Stdout == nil:
		return errors.New("logger and standard output are required")
	}
	return nil
}
