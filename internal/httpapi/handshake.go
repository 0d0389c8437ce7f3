package httpapi

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxToken is many times what Graph sends, in bytes after decoding.
const maxToken = 8 << 10

// validationToken looks for the parameter of a handshake, whatever the case of
// its name, and decodes it once. It does not use url.ParseQuery, which drops
// parameters that hold a semicolon. A token that cannot be decoded is given as
// errBadTokens.
func validationToken(query string) (token string, present bool, err error) {
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		if err != nil || !strings.EqualFold(name, "validationToken") {
			continue
		}
		token, err := url.QueryUnescape(value)
		if err != nil || !echoable(token) {
			return "", true, errBadTokens
		}
		return token, true, nil
	}
	return "", false, nil
}

// echoable refuses what a browser might take for markup instead of escaping
// it, since the echo must be exact.
func echoable(token string) bool {
	if token == "" || len(token) > maxToken || !utf8.ValidString(token) || strings.ContainsAny(token, "<>") {
		return false
	}
	return !strings.ContainsFunc(token, unicode.IsControl)
}

// handshake answers from memory: no body, store, lease or token service is on
// its way, and it is never refused for load.
func (r *Receiver) handshake(w http.ResponseWriter, req *http.Request, token string, err error) {
	leaveBody(w, req)
	if err != nil {
		r.metrics.handshakes.WithLabelValues("refused").Inc()
		r.log.WarnContext(req.Context(), "handshake refused", "error", err)
		status, _ := refusal(err)
		http.Error(w, http.StatusText(status), status)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusOK)
	// When the client is gone there is nobody left to tell.
	_, _ = io.WriteString(w, token)
	r.metrics.handshakes.WithLabelValues("answered").Inc()
}
