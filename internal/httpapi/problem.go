package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// writeProblem answers with a problem document of RFC 9457 where no described
// route does.
func writeProblem(w http.ResponseWriter, status int, detail string) {
	body, err := json.Marshal(&huma.ErrorModel{Title: http.StatusText(status), Status: status, Detail: detail})
	if err != nil {
		status, body = http.StatusInternalServerError, nil // it holds nothing that cannot be encoded
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	// When the client is gone there is nobody left to tell.
	_, _ = w.Write(append(body, '\n'))
}

// problem is the one table from the class of an error to an answer. The cause
// goes to the log and never out.
func (a *Admin) problem(ctx context.Context, err error) error {
	reason := graph.Classify(err)
	a.log.ErrorContext(ctx, "admin request failed", "reason", string(reason), "error", err)
	switch {
	case errors.Is(err, graph.ErrStoreUnavailable), errors.Is(err, context.DeadlineExceeded):
		return huma.Error503ServiceUnavailable("the store gives no answer; try again later")
	}
	return huma.Error500InternalServerError("this is a fault of graphsubd; its log says more")
}
