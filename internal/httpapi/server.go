package httpapi

import (
	"log/slog"
	"net/http"
	"time"
)

// The time-outs of a server. Graph gives its first attempt 3 s and later ones
// 10 s, so nothing that takes longer to arrive is still waited for.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	// writeTimeout runs from the end of the headers: it leaves room for a
	// slow body and the store's answer after it.
	writeTimeout = 15 * time.Second
	// idleTimeout is above what load balancers commonly use, so that they
	// end a connection first and never send into a closing one.
	idleTimeout = 120 * time.Second
	// maxHeader holds the longest token that is echoed, percent-encoded.
	maxHeader = 64 << 10
)

// NewServer gives a server with time-outs fit for Graph and for slow clients.
// It serves nothing until the caller gives it a listener, and is the caller's
// to end.
func NewServer(handler http.Handler, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
}
