package graphsim_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph/graphsim"
)

const payloadText = "Could not process subscription creation payload. Are all property names spelled and camelCased properly?"

func TestCreateAnswersWithTheSubscription(t *testing.T) {
	w := newWorld(t, graphsim.Config{})
	req := w.request(http.MethodPost, "https://graph.test/v1.0/subscriptions", encode(t, with(map[string]any{
		"lifecycleNotificationUrl": lifeURL + "?x=1",
	})))
	req.Header.Set("client-request-id", "caller-1")
	resp := w.raw(req)
	if resp.status != http.StatusCreated {
		t.Fatalf("create: %d %s", resp.status, resp.body)
	}
	if got := resp.header.Get("client-request-id"); got != "caller-1" {
		t.Errorf("client-request-id %q", got)
	}
	if resp.header.Get("request-id") == "" || resp.header.Get("Date") == "" {
		t.Errorf("headers %v", resp.header)
	}
	var body map[string]any
	if err := json.Unmarshal(resp.body, &body); err != nil {
		t.Fatal(err)
	}
	for member, want := range map[string]any{
		"resource": inbox, "changeType": "created,updated", "clientState": "sesame", "applicationId": app,
		"notificationUrl": hookURL, "latestSupportedTlsVersion": "v1_2", "notificationUrlAppId": nil,
		"@odata.context": "https://graph.test/v1.0/$metadata#subscriptions/$entity",
	} {
		if body[member] != want {
			t.Errorf("%s is %v, want %v", member, body[member], want)
		}
	}
	w.hook.mu.Lock()
	defer w.hook.mu.Unlock()
	if len(w.hook.handshakes) != 2 {
		t.Fatalf("%d handshakes, want 2", len(w.hook.handshakes))
	}
	for _, h := range w.hook.handshakes {
		token := h.URL.Query().Get("validationToken")
		if h.Method != http.MethodPost || h.Header.Get("Content-Type") != "text/plain; charset=utf-8" ||
			!strings.HasPrefix(token, "Validation: Testing client application reachability for subscription Request-Id: ") {
			t.Errorf("handshake %s %s %v", h.Method, h.URL, h.Header)
		}
		if strings.Contains(h.URL.Path, "lifecycle") && !strings.HasPrefix(h.URL.RawQuery, "x=1&validationToken=Validation%3A") {
			t.Errorf("query %q", h.URL.RawQuery)
		}
	}
	if c := w.sim.Counts(); c.Created != 1 || c.Handshakes != 2 || c.Live != 1 || c.Operations["create"][201] != 1 {
		t.Errorf("counts %+v", c)
	}
}

func encode(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestCreateRefuses(t *testing.T) {
	chat := "chats/19:abc@thread.v2/messages"
	cases := map[string]struct {
		change        map[string]any
		status        int
		code, message string
	}{
		"no resource":   {map[string]any{"resource": nil}, 400, "InvalidRequest", "resource is a required property for subscription creation"},
		"no changeType": {map[string]any{"changeType": nil}, 400, "InvalidRequest", "changeType is a required property for subscription creation"},
		"no URL":        {map[string]any{"notificationUrl": nil}, 400, "InvalidRequest", "notificationUrl is a required property for subscription creation"},
		"no expiry": {
			map[string]any{"expirationDateTime": nil},
			400, "InvalidRequest",
			"expirationDateTime is a required property for subscription creation",
		},
		"no zone":          {map[string]any{"expirationDateTime": "2030-01-01T00:00:00"}, 400, "InvalidRequest", payloadText},
		"unknown property": {map[string]any{"notificationURL": hookURL}, 400, "InvalidRequest", payloadText},
		"read-only":        {map[string]any{"applicationId": app}, 400, "InvalidRequest", payloadText},
		"web push":         {map[string]any{"vapidPublicKey": "x"}, 400, "InvalidRequest", payloadText},
		"wrong type":       {map[string]any{"clientState": 1}, 400, "InvalidRequest", payloadText},
		"TLS 1.3": {
			map[string]any{"latestSupportedTlsVersion": "v1_3"},
			400, "ValidationError",
			"Invalid property value for LatestSupportedTlsVersion",
		},
		"long clientState": {
			map[string]any{"clientState": strings.Repeat("x", 129)},
			400, "InvalidRequest",
			"clientState must not exceed 128 characters.",
		},
		"plain http":        {map[string]any{"notificationUrl": "http://hooks.test/x"}, 400, "InvalidRequest", "The notificationUrl must be an https URL."},
		"relative URL":      {map[string]any{"lifecycleNotificationUrl": "/x"}, 400, "InvalidRequest", ""},
		"unknown resource":  {map[string]any{"resource": "planner/x"}, 400, "InvalidRequest", "resource 'planner/x' is not supported."},
		"absolute resource": {map[string]any{"resource": "https://graph.microsoft.com/v1.0/users"}, 400, "InvalidRequest", ""},
		"changeType of user": {
			map[string]any{"resource": "users", "changeType": "created"},
			400, "InvalidRequest",
			"changeType 'created' is not supported for resource 'users'.",
		},
		"odd case":       {map[string]any{"changeType": "Created"}, 400, "InvalidRequest", ""},
		"repeated type":  {map[string]any{"changeType": "created,created"}, 400, "InvalidRequest", ""},
		"drive deletion": {map[string]any{"resource": "drives/1/root", "changeType": "deleted"}, 400, "InvalidRequest", ""},
		"too long": {
			map[string]any{"expirationDateTime": in(8 * 24 * time.Hour)},
			400, "ExtensionError",
			"Subscription expiration can only be 10080 minutes in the future.",
		},
		"Teams without lifecycle URL": {
			map[string]any{"resource": chat, "expirationDateTime": in(61 * time.Minute)},
			400, "InvalidRequest",
			"lifecycleNotificationUrl is a required property for subscription creation on this resource " +
				"when the expirationDateTime value is set to greater than 1 hour",
		},
		"me": {
			map[string]any{"resource": "me/chats"},
			500, "ExtensionError",
			"Operation: Create; Exception: [Specified method is not supported.]",
		},
		"delegated only": {
			map[string]any{"resource": "communications/presences/1", "changeType": "updated"},
			403, "ExtensionError",
			"Operation: Create; Exception: [Status Code: Forbidden; Reason: Forbidden]",
		},
		"print without options": {
			map[string]any{"resource": "print/printers/1/jobs", "changeType": "updated"},
			400, "InvalidRequest",
			"notificationQueryOptions is a required property for subscription creation",
		},
		"rich without certificate": {
			map[string]any{"resource": inbox + "?$select=id", "includeResourceData": true},
			400, "InvalidRequest",
			"encryptionCertificate is a required property for subscription creation",
		},
		"bad certificate": {
			map[string]any{"resource": inbox + "?$select=id", "includeResourceData": true, "encryptionCertificate": "c3No", "encryptionCertificateId": "a"},
			400, "InvalidRequest", "Certificate validation error: Cannot find the requested object.",
		},
		"rich drive": {
			map[string]any{"resource": "drives/1/root", "changeType": "updated", "includeResourceData": true},
			400, "InvalidRequest",
			"File Services workload is not enabled for rich notifications.",
		},
	}
	w := newWorld(t, graphsim.Config{})
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			status, body := w.graph(http.MethodPost, "", with(c.change))
			(&world{t: t}).refused(status, body, c.status, c.code, c.message)
		})
	}
	if c := w.sim.Counts(); c.Handshakes != 0 || c.Live != 0 {
		t.Errorf("a refused call reached the endpoint: %+v", c)
	}
}

func TestErrorEnvelope(t *testing.T) {
	w := newWorld(t, graphsim.Config{})
	spellings := map[string]bool{}
	for range 40 {
		status, body := w.graph(http.MethodGet, "/00000000-0000-4000-8000-000000000000", nil)
		w.refused(status, body, 404, "ResourceNotFound", "")
		e, _ := body["error"].(map[string]any)
		for _, spelling := range []string{"innerError", "innererror"} {
			inner, ok := e[spelling].(map[string]any)
			if !ok {
				continue
			}
			spellings[spelling] = true
			for _, member := range []string{"date", "request-id", "client-request-id"} {
				if inner[member] == nil {
					t.Errorf("%s lacks %s: %v", spelling, member, inner)
				}
			}
		}
	}
	if len(spellings) != 2 {
		t.Errorf("spellings seen: %v", spellings)
	}
}

func TestBodiesThatAreNotPlainJSONAreRefused(t *testing.T) {
	w := newWorld(t, graphsim.Config{})
	for name, header := range map[string]http.Header{
		"gzip":       {"Content-Encoding": {"gzip"}, "Content-Type": {"application/json"}},
		"text":       {"Content-Type": {"text/plain"}},
		"no type":    {"Content-Type": nil},
		"other JSON": {"Content-Type": {"application/merge-patch+json"}},
	} {
		req := w.request(http.MethodPost, "https://graph.test/v1.0/subscriptions", encode(t, with(nil)))
		maps.Copy(req.Header, header)
		if status, body := w.send(req); status != http.StatusUnsupportedMediaType {
			t.Errorf("%s: %d %v", name, status, body)
		}
	}
	req := w.request(http.MethodPost, "https://graph.test/v1.0/subscriptions", `{"resource":`)
	status, body := w.send(req)
	w.refused(status, body, 400, "InvalidRequest", payloadText)
}

func TestLifetimes(t *testing.T) {
	w := newWorld(t, graphsim.Config{DelegatedOnly: true})
	for resource, minutes := range map[string]int{
		"users/1/events": 10080, "groups": 41760, "drives/1/root": 42300, "sites/a,b,c/lists/1": 42300,
		"security/alerts/1": 43200, "teams/1/channels/2/messages": 4320, "communications/callRecords": 4230,
		"teams/1/schedule/shifts": 360, "communications/presences/1": 60, "me/todo/lists/1/tasks": 4230,
		"communications/onlineMeetings(joinWebUrl='a')/meetingCallEvents": 4230,
	} {
		lived := time.Duration(minutes) * time.Minute
		body := map[string]any{
			"resource": resource, "changeType": "updated", "lifecycleNotificationUrl": lifeURL, "expirationDateTime": in(lived),
		}
		id := w.create(body)
		_, got := w.graph(http.MethodGet, "/"+id, nil)
		if left := time.Until(expiry(t, got)); left < lived-time.Minute || left > lived {
			t.Errorf("%s lives %v, want %v", resource, left, lived)
		}
		body["expirationDateTime"] = in(lived + time.Minute)
		if status, refusal := w.graph(http.MethodPost, "", with(body)); status != 400 {
			t.Errorf("%s beyond %d minutes: %d %v", resource, minutes, status, refusal)
		}
	}
}

func TestShortLivesAreRaised(t *testing.T) {
	w := newWorld(t, graphsim.Config{})
	for _, asked := range []time.Duration{-time.Hour, time.Minute, 44 * time.Minute} {
		_, body := w.graph(http.MethodPost, "", with(map[string]any{"expirationDateTime": in(asked)}))
		if left := time.Until(expiry(t, body)); left < 44*time.Minute || left > 45*time.Minute {
			t.Errorf("asked %v, lives %v", asked, left)
		}
	}
}

func TestTimeScaleDividesLifetimesButNotTheText(t *testing.T) {
	w := newWorld(t, graphsim.Config{TimeScale: 1000})
	_, body := w.graph(http.MethodPost, "", with(map[string]any{"expirationDateTime": in(time.Millisecond)}))
	if left := time.Until(expiry(t, body)); left > 2700*time.Millisecond {
		t.Errorf("lives %v, want 45 minutes over 1000", left)
	}
	status, body := w.graph(http.MethodPost, "", with(map[string]any{"expirationDateTime": in(11 * time.Minute)}))
	w.refused(status, body, 400, "ExtensionError", "Subscription expiration can only be 10080 minutes in the future.")
}

func TestConfiguredLifetimeAndGrant(t *testing.T) {
	w := newWorld(t, graphsim.Config{
		MaxLifetimes: map[graphsim.Kind]time.Duration{graphsim.Message: 4230 * time.Minute}, GrantedShare: 0.5,
	})
	status, body := w.graph(http.MethodPost, "", with(map[string]any{"expirationDateTime": in(4231 * time.Minute)}))
	w.refused(status, body, 400, "ExtensionError", "Subscription expiration can only be 4230 minutes in the future.")
	_, body = w.graph(http.MethodPost, "", with(map[string]any{"expirationDateTime": in(10 * time.Hour)}))
	if left := time.Until(expiry(t, body)); left > 5*time.Hour || left < 5*time.Hour-time.Minute {
		t.Errorf("granted %v of 10h, want half", left)
	}
}

func TestRichRules(t *testing.T) {
	w := newWorld(t, graphsim.Config{})
	rich := map[string]any{
		"resource": inbox + "?$select=subject", "includeResourceData": true,
		"encryptionCertificate": certificate(t, newRSA(t, 2048)), "encryptionCertificateId": "mail",
	}
	w.create(rich)
	refuse := func(name, wantCode, wantMessage string, change map[string]any) {
		t.Helper()
		body := with(rich)
		maps.Copy(body, change)
		status, got := w.graph(http.MethodPost, "", body)
		t.Log(name)
		w.refused(status, got, 400, wantCode, wantMessage)
	}
	refuse("lifetime", "ExtensionError", "Subscription expiration can only be 1440 minutes in the future.",
		map[string]any{"expirationDateTime": in(25 * time.Hour)})
	refuse("no select", "InvalidRequest", "$select is required for rich notifications of this resource.",
		map[string]any{"resource": inbox})
	refuse("top", "InvalidRequest", "$top is not supported for rich notifications of this resource.",
		map[string]any{"resource": inbox + "?$top=5&$select=id"})
	refuse("small key", "InvalidRequest", "Certificate validation error: the key must be RSA of 2048 to 4096 bits.",
		map[string]any{"encryptionCertificate": certificate(t, newRSA(t, 1024))})
	refuse("PEM", "InvalidRequest", "Certificate validation error: Cannot find the requested object.",
		map[string]any{"encryptionCertificate": "-----BEGIN CERTIFICATE-----"})
	refuse("long id", "InvalidRequest", "encryptionCertificateId must not exceed 128 characters.",
		map[string]any{"encryptionCertificateId": strings.Repeat("x", 129)})
}

func newRSA(t *testing.T, bits int) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func certificate(t *testing.T, key *rsa.PrivateKey) string {
	t.Helper()
	return base64.StdEncoding.EncodeToString(selfSigned(t, key).Raw)
}

func selfSigned(t *testing.T, key *rsa.PrivateKey) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestDuplicates(t *testing.T) {
	w := newWorld(t, graphsim.Config{})
	if first, second := w.create(nil), w.create(nil); first == second {
		t.Error("two silent duplicates share an id")
	}

	w = newWorld(t, graphsim.Config{ConflictOnDuplicate: true})
	w.create(nil)
	status, body := w.graph(http.MethodPost, "", with(nil))
	w.refused(status, body, 409, "Conflict", "Subscription Id <> already exists for the requested combination")
	w.create(map[string]any{"changeType": "deleted"})

	w = newWorld(t, graphsim.Config{ConflictOnDuplicate: true, ConflictShowsID: true})
	id := w.create(nil)
	status, body = w.graph(http.MethodPost, "", with(nil))
	w.refused(status, body, 409, "Conflict", "Subscription Id <"+id+"> already exists for the requested combination")

	w = newWorld(t, graphsim.Config{DelegatedOnly: true})
	presence := map[string]any{"resource": "communications/presences/1", "changeType": "updated"}
	w.create(presence)
	status, body = w.graph(http.MethodPost, "", with(presence))
	//nolint:misspell // Graph's own spelling.
	w.refused(status, body, 409, "ExtensionError", "Operation: Create; Exception: [Status Code: Conflict; "+
		"Reason: A subscripton already exists. It must be deleted before a another can be made.]")
}

func TestQuotas(t *testing.T) {
	const text = "Operation: Create; Exception: [Status Code: Forbidden; Reason: Maximum number of subscriptions has been reached]"
	w := newWorld(t, graphsim.Config{Quotas: graphsim.Quotas{Mailbox: 2, DirectoryAppTenant: 1, CallRecords: -1}})
	first := w.create(map[string]any{"resource": "users/1/messages"})
	w.create(map[string]any{"resource": "/Users('1')/events"})
	status, body := w.graph(http.MethodPost, "", with(map[string]any{"resource": "users/1/contacts"}))
	w.refused(status, body, 403, "ExtensionError", text)
	w.create(map[string]any{"resource": "users/2/contacts"})
	if status, _ := w.graph(http.MethodDelete, "/"+first, nil); status != 204 {
		t.Fatalf("delete: %d", status)
	}
	w.create(map[string]any{"resource": "users/1/contacts"})

	w.create(map[string]any{"resource": "users", "changeType": "updated"})
	status, body = w.graph(http.MethodPost, "", with(map[string]any{"resource": "users/1", "changeType": "updated"}))
	w.refused(status, body, 403, "ExtensionError", text)
	w.create(map[string]any{"resource": "groups", "changeType": "updated"})

	channel := map[string]any{"resource": "teams/1/channels/2/messages"}
	w.create(channel)
	channel["changeType"] = "deleted"
	status, body = w.graph(http.MethodPost, "", with(channel))
	w.refused(status, body, 403, "ExtensionError", text)
	w.token = w.signIn(tenant, "00000000-0000-4000-8000-000000000001")
	w.create(channel)
}
