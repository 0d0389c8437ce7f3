package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/graphsubd/graphsubd/internal/config"
)

// Addresses are where the process really listens.
type Addresses struct {
	Public    string `json:"public"`
	Admin     string `json:"admin"`
	Telemetry string `json:"telemetry"`
}

// listeners are bound before anything runs, so that port 0 can be used and a
// port that is taken ends the start.
type listeners struct{ public, admin, telemetry net.Listener }

func bind(ctx context.Context, cfg config.Listen, public net.Listener) (l listeners, err error) {
	var lc net.ListenConfig
	if l.public = public; public == nil {
		if l.public, err = lc.Listen(ctx, "tcp", cfg.Public.Address); err != nil {
			return l, fmt.Errorf("listen.public: %w", err)
		}
	}
	if l.admin, err = lc.Listen(ctx, "tcp", cfg.Admin.Address); err != nil {
		return l, errors.Join(fmt.Errorf("listen.admin: %w", err), l.public.Close())
	}
	if l.telemetry, err = lc.Listen(ctx, "tcp", cfg.Telemetry.Address); err != nil {
		return l, errors.Join(fmt.Errorf("listen.telemetry: %w", err), l.public.Close(), l.admin.Close())
	}
	return l, nil
}

// closeOnce closes a listener unless its server has done so.
func closeOnce(listener net.Listener) func() error {
	return func() error {
		if err := listener.Close(); !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	}
}

// serve answers on a listener until ctx ends, and then lets requests under way
// finish for as long as stopHTTP.
func serve(ctx context.Context, server *http.Server, listener net.Listener) error {
	stopped := make(chan error, 1)
	unhook := context.AfterFunc(ctx, func() {
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopHTTP)
		defer cancel()
		err := server.Shutdown(drain)
		if errors.Is(err, context.DeadlineExceeded) {
			err = server.Close() // a request that hangs is cut: it was not acknowledged
		}
		stopped <- err
	})
	var err error
	if server.TLSConfig == nil {
		err = server.Serve(listener)
	} else {
		err = server.ServeTLS(listener, "", "") // the settings say where the key pair is
	}
	if unhook() {
		return err // it ended by itself
	}
	return errors.Join(<-stopped, ignoreClosed(err))
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
