package msgraph

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

const (
	// maxBody bounds one answer; a subscription is about 1 KiB.
	maxBody = 1 << 20
	// maxPage bounds one page of a listing, whose size Graph does not
	// document: a thousand subscriptions with their certificates fit.
	maxPage = 4 << 20
)

// newTransport gives the client's own transport. The header time-out is only
// a second line behind the time-out of the attempt. A connection that died
// without a word (a NAT that forgot it) is found by pings, or every call on it
// would run into its time-out.
func newTransport(cfg Config) *http.Transport {
	dialer := net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dialer.DialContext,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second},
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: cfg.Roots},
		TLSHandshakeTimeout:    10 * time.Second,
		ResponseHeaderTimeout:  max(cfg.CreateTimeout, cfg.CallTimeout),
		IdleConnTimeout:        90 * time.Second,
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    32,
		MaxResponseHeaderBytes: 256 << 10,
		DisableCompression:     true,
	}
}

// newHTTPClient follows no redirect: neither Graph nor the login sends one,
// and a token must not travel to where a third party points.
func newHTTPClient(transport http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// bounded cuts off token answers, which azidentity reads to their end.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(request)
	if err == nil {
		response.Body = http.MaxBytesReader(nil, response.Body, maxBody)
	}
	return response, err
}

var errTooLong = errors.New("the answer is too long to be Graph's")

// readBounded reads at most limit bytes; more is errTooLong.
func readBounded(r io.Reader, limit int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(body)) > limit {
		err = errTooLong
	}
	return body, err
}
