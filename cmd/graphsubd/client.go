package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

const (
	defaultServer = "http://127.0.0.1:8081"
	serverEnv     = "GRAPHSUBD_SERVER"
	tokenEnv      = "GRAPHSUBD_TOKEN" //nolint:gosec // The name of a variable.

	// clientTimeout is above what the server gives itself for an answer.
	clientTimeout = 30 * time.Second
	// maxAnswer is far above the largest page.
	maxAnswer = 64 << 20
)

// clientFlags say which instance to ask, and as whom.
type clientFlags struct {
	getenv            func(string) string
	server, tokenFile string
}

func clientFlagsOf(cmd *cobra.Command, getenv func(string) string) *clientFlags {
	f := &clientFlags{getenv: getenv}
	cmd.Flags().StringVar(&f.server, "server", "", "`URL` of the admin listener (default: $"+serverEnv+", else "+defaultServer+")")
	cmd.Flags().StringVar(&f.tokenFile, "token-file", "", "`file` with the admin token (default: the token in $"+tokenEnv+")")
	return f
}

// client talks to the admin interface of one instance.
type client struct {
	base  *url.URL
	token string
	http  *http.Client
}

func (f *clientFlags) client() (*client, error) {
	address := cmp.Or(f.server, f.getenv(serverEnv), defaultServer)
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" || base.User != nil {
		return nil, usageError(fmt.Errorf("the server is not a URL such as %s; --server or %s says it", defaultServer, serverEnv))
	}
	token, err := f.token()
	if err != nil {
		return nil, usageError(err)
	}
	// A redirect would carry the token to where nobody said.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client{base, token, &http.Client{Timeout: clientTimeout, CheckRedirect: stay}}, nil
}

func (f *clientFlags) token() (string, error) {
	if f.tokenFile == "" {
		token := f.getenv(tokenEnv)
		if token == "" {
			return "", fmt.Errorf("no admin token given; name a file by --token-file or set %s", tokenEnv)
		}
		return token, nil
	}
	text, err := os.ReadFile(f.tokenFile)
	if err != nil {
		return "", fmt.Errorf("read the admin token: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", fmt.Errorf("%s is empty; put the admin token there", f.tokenFile)
	}
	return token, nil
}

// get reads one answer. The error's class is the exit code.
func (c *client) get(ctx context.Context, path string, query url.Values, into any) error {
	target := c.base.JoinPath(path)
	target.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), http.NoBody)
	if err != nil {
		return err
	}
	return c.do(request, into)
}

// post sends one request for a change, and reads the answer as get does.
func (c *client) post(ctx context.Context, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base.JoinPath(path).String(), bytes.NewReader(text))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	return c.do(request, into)
}

func (c *client) do(request *http.Request, into any) error {
	request.Header.Set("Authorization", "Bearer "+c.token)
	response, err := c.http.Do(request)
	if err != nil {
		return c.unreachable(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return c.unreachable(err)
	}
	if response.StatusCode != http.StatusOK {
		return c.refused(response, body)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%s answers with something else than the admin interface of graphsubd; check --server", c.base)
	}
	return nil
}

func (c *client) unreachable(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	return classedError{
		fmt.Errorf("no answer from %s: %w; is graphsubd running there? --server or %s says where it is", c.base, err, serverEnv),
		errUnreachable,
	}
}

// refused makes an error of any answer but 200.
func (c *client) refused(response *http.Response, body []byte) error {
	text := response.Status + "; this is not how graphsubd's admin interface answers, check --server"
	var problem struct {
		Detail string `json:"detail"`
		Errors []struct {
			Message  string `json:"message"`
			Location string `json:"location"`
		} `json:"errors"`
	}
	ours := strings.HasPrefix(response.Header.Get("Content-Type"), "application/problem+json") && json.Unmarshal(body, &problem) == nil
	if ours && problem.Detail != "" {
		text = problem.Detail
	}
	for _, e := range problem.Errors {
		text += "; " + e.Location + ": " + e.Message
	}
	err := fmt.Errorf("%s: %s", c.base, oneLine(text))
	switch response.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return classedError{err, errDenied}
	case http.StatusNotFound:
		if ours {
			return classedError{err, errNotFound}
		}
	case http.StatusConflict:
		if ours {
			return classedError{err, errConflict}
		}
	case http.StatusUnprocessableEntity:
		return usageError(err)
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		if !ours { // what is in front of the instance answers in its place
			return classedError{err, errUnreachable}
		}
	}
	return err
}
