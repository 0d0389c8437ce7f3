package lease_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/graphsubd/graphsubd/internal/lease"
)

const leasePath = "/apis/coordination.k8s.io/v1/namespaces/graph/leases/graphsubd"

// apiServer holds one Lease as the API server does: it checks what is written,
// and takes an update only of the version it has. Times are those of the bubble.
type apiServer struct {
	mu       sync.Mutex
	lease    *coordinationv1.Lease // nil when it does not exist
	version  int
	writes   []string // bodies of the updates that were taken
	strange  []string // requests that the permissions would not allow
	observer func(spec coordinationv1.LeaseSpec)
}

func newAPIServer() *apiServer {
	a := &apiServer{}
	a.put(coordinationv1.LeaseSpec{})
	return a
}

// put makes the Lease anew, as kubectl apply does after a delete.
func (a *apiServer) put(spec coordinationv1.LeaseSpec) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	a.lease = &coordinationv1.Lease{
		TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "graph", Name: "graphsubd", UID: "1", ResourceVersion: strconv.Itoa(a.version),
			Labels: map[string]string{"kept": "yes"},
		},
		Spec: spec,
	}
}

// observe has each update that is taken shown to f.
func (a *apiServer) observe(f func(spec coordinationv1.LeaseSpec)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.observer = f
}

func (a *apiServer) written() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.writes)
}

func (a *apiServer) remove() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lease = nil
}

func (a *apiServer) spec() coordinationv1.LeaseSpec {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lease == nil {
		return coordinationv1.LeaseSpec{}
	}
	return *a.lease.Spec.DeepCopy()
}

func (a *apiServer) holder() string {
	if h := a.spec().HolderIdentity; h != nil {
		return *h
	}
	return ""
}

// serve answers one request: a status and a body.
func (a *apiServer) serve(method, path string, body []byte) (int, any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case path != leasePath || method != http.MethodGet && method != http.MethodPut:
		a.strange = append(a.strange, method+" "+path)
		return refuse(http.StatusForbidden, metav1.StatusReasonForbidden)
	case a.lease == nil:
		return refuse(http.StatusNotFound, metav1.StatusReasonNotFound)
	case method == http.MethodGet:
		return http.StatusOK, a.lease.DeepCopy()
	}
	var lease coordinationv1.Lease
	if err := json.Unmarshal(body, &lease); err != nil || !hasSixDigits(body) {
		return refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest)
	}
	s := lease.Spec
	if s.LeaseDurationSeconds == nil || *s.LeaseDurationSeconds <= 0 || s.LeaseTransitions != nil && *s.LeaseTransitions < 0 {
		return refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
	}
	if lease.ResourceVersion != a.lease.ResourceVersion || lease.UID != a.lease.UID {
		return refuse(http.StatusConflict, metav1.StatusReasonConflict)
	}
	a.version++
	lease.ResourceVersion = strconv.Itoa(a.version)
	a.lease = &lease
	a.writes = append(a.writes, string(body))
	if a.observer != nil {
		a.observer(s)
	}
	return http.StatusOK, lease.DeepCopy()
}

// hasSixDigits is how the API server parses a MicroTime.
func hasSixDigits(body []byte) bool {
	times := regexp.MustCompile(`"(?:acquire|renew)Time":"([^"]*)"`).FindAllSubmatch(body, -1)
	for _, found := range times {
		if !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`).Match(found[1]) {
			return false
		}
	}
	return len(times) == 2
}

func refuse(code int, reason metav1.StatusReason) (int, any) {
	return code, &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Reason: reason, Code: int32(code), Message: "refused: " + string(reason),
	}
}

// fault is what becomes of one call; the zero value is that it succeeds.
type fault struct {
	delay  time.Duration
	status int  // answered in place of the API server
	hang   bool // the request never arrives
	mute   bool // it arrives and takes effect, and the answer never does
}

// wire is the way of one process to the API server.
type wire struct {
	api *apiServer

	mu     sync.Mutex
	faults func(method string) fault // guarded by mu; nil when there are none
}

func (w *wire) set(faults func(method string) fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = faults
}

func (w *wire) always(f fault) { w.set(func(string) fault { return f }) }

func (w *wire) fault(method string) fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.faults == nil {
		return fault{}
	}
	return w.faults(method)
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// RoundTrip is a connection and a server in one.
func (w *wire) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx := request.Context()
	var body []byte
	if request.Body != nil {
		var err error
		if body, err = io.ReadAll(request.Body); err != nil {
			return nil, err
		}
		_ = request.Body.Close()
	}
	f := w.fault(request.Method)
	if err := pause(ctx, f.delay/2); err != nil {
		return nil, err
	}
	if f.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	code, answer := refuse(f.status, reasonOfStatus(f.status))
	if f.status == 0 {
		code, answer = w.api.serve(request.Method, request.URL.Path, body)
	}
	if f.mute {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if err := pause(ctx, f.delay/2); err != nil {
		return nil, err
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		Status: http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(text)), Request: request,
	}, nil
}

func reasonOfStatus(code int) metav1.StatusReason {
	switch code {
	case http.StatusForbidden:
		return metav1.StatusReasonForbidden
	case http.StatusUnauthorized:
		return metav1.StatusReasonUnauthorized
	case http.StatusNotFound:
		return metav1.StatusReasonNotFound
	case http.StatusConflict:
		return metav1.StatusReasonConflict
	case http.StatusBadRequest:
		return metav1.StatusReasonBadRequest
	case http.StatusTooManyRequests:
		return metav1.StatusReasonTooManyRequests
	}
	return metav1.StatusReasonInternalError
}

// client is the real client on that wire.
func (w *wire) client(t *testing.T) *coordination.CoordinationV1Client {
	t.Helper()
	client, err := lease.ClientFor(&rest.Config{Host: "http://api", Transport: w})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// unharmed fails the test when somebody asked for more than get and update, or
// lost what else the Lease holds.
func (a *apiServer) unharmed(t *testing.T) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.strange) > 0 {
		t.Errorf("requests beyond get and update of the one lease: %s", strings.Join(a.strange, ", "))
	}
	if a.lease != nil && a.lease.Labels["kept"] != "yes" {
		t.Error("the labels of the lease are lost")
	}
}

var errLost = errors.New("lease lost")

func microTime(at time.Time) *metav1.MicroTime { return new(metav1.NewMicroTime(at)) }

func describe(s coordinationv1.LeaseSpec) string {
	text, err := json.Marshal(s)
	return fmt.Sprint(string(text), err)
}
