package config

import (
	"encoding/base64"
	"path"
	"strconv"
	"strings"
	"time"
)

const (
	// webhookSecretPrefix marks a signing secret that is written as base64.
	webhookSecretPrefix = "whsec_"
	// minWebhookKeyBytes is the shortest key that Standard Webhooks allows.
	minWebhookKeyBytes = 24
)

// Sink is where events go. Exactly one of Webhook, Kafka, NATS and File is set.
type Sink struct {
	// A DNS-1123 label of at most 63 characters, unique among the sinks.
	Name string `yaml:"name" jsonschema:"required,maxLength=63"`
	// What it gets, each once: changes, gaps, operations. Default all three.
	Events []string `yaml:"events" jsonschema:"minItems=1,uniqueItems=true,enum=changes,enum=gaps,enum=operations"`
	// Keep the order of the events of one resource. Default false.
	Ordered bool `yaml:"ordered" jsonschema:"default=false"`
	// Events on their way at once, by each replica. 1 to 1024. Default 32.
	Concurrency int `yaml:"concurrency" jsonschema:"minimum=1,maximum=1024,default=32"`
	// When to stop trying.
	Retry Retry `yaml:"retry"`
	// Events it takes by itself, beside those of subscriptions that name it. Default none.
	Filter *Filter `yaml:"filter"`
	// An HTTP endpoint, signed as Standard Webhooks says.
	Webhook *Webhook `yaml:"webhook"`
	// A topic of Kafka or Azure Event Hubs.
	Kafka *Kafka `yaml:"kafka"`
	// A subject of NATS JetStream.
	NATS *NATS `yaml:"nats"`
	// A file, one CloudEvent a line.
	File *FileSink `yaml:"file"`
}

// Retry says when to stop trying.
type Retry struct {
	// Age at which an event becomes a dead letter. Above zero. Default 72h.
	MaxAge time.Duration `yaml:"maxAge" jsonschema:"default=72h"`
}

// Filter takes events by tenant and type.
type Filter struct {
	// Names of the tenants. Default all.
	Tenants []string `yaml:"tenants" jsonschema:"uniqueItems=true"`
	// Event types, with * for any characters. Default all.
	Types []string `yaml:"types" jsonschema:"uniqueItems=true"`
}

// Webhook is an HTTP endpoint.
type Webhook struct {
	// Where events are posted: http or https, without a user in it.
	URL string `yaml:"url" jsonschema:"required,format=uri"`
	// One signing secret, or two while one replaces the other: whsec_ and base64, or any text of 24 bytes or more.
	Secrets []Secret `yaml:"secrets" jsonschema:"required,minItems=1,maxItems=2"`
}

// Kafka is a topic.
type Kafka struct {
	// Host and port of one broker or more.
	Brokers []string `yaml:"brokers" jsonschema:"required,minItems=1"`
	// Topic events are written to; it exists already.
	Topic string `yaml:"topic" jsonschema:"required"`
	// Sign-in. Default none.
	SASL *SASL `yaml:"sasl"`
	// Speak TLS; write {}. Default off.
	TLS *ClientTLS `yaml:"tls"`
}

// SASL is a sign-in to Kafka.
type SASL struct {
	// OAUTHBEARER.
	Mechanism string `yaml:"mechanism" jsonschema:"required,enum=OAUTHBEARER"`
	// Where its token comes from.
	AzureCredential *AzureCredential `yaml:"azureCredential" jsonschema:"required"`
}

// ClientTLS has no settings of its own; write {}.
type ClientTLS struct{}

// NATS is a subject.
type NATS struct {
	// Address of the server: nats, tls, ws or wss, without a user in it.
	URL string `yaml:"url" jsonschema:"required,format=uri"`
	// Subject, with {tenant} and {subscription} filled in.
	Subject string `yaml:"subject" jsonschema:"required"`
	// NATS credentials file. Default none.
	Credentials *Secret `yaml:"credentials"`
}

// FileSink is a file, or standard output.
type FileSink struct {
	// The file, appended to and synced; "-" is standard output, which is not durable.
	Path string `yaml:"path" config:"path" jsonschema:"required"`
}

func (s *Sink) setDefaults() {
	s.Events, s.Concurrency = []string{"changes", "gaps", "operations"}, 32
}

func (r *Retry) setDefaults() {
	r.MaxAge = 72 * time.Hour
}

func (s *Sink) check(a place, n *names) {
	checkSet(a.key("events"), s.Events, "changes", "gaps", "operations")
	if s.Concurrency < 1 || s.Concurrency > 1024 {
		a.key("concurrency").fault("is not between 1 and 1024", "write a number such as 32")
	}
	checkPositive(a.key("retry").key("maxAge"), s.Retry.MaxAge)
	if s.Filter != nil {
		s.Filter.check(a.key("filter"), n)
	}
	checkOneKind(a,
		kind{"webhook", s.Webhook != nil},
		kind{"kafka", s.Kafka != nil},
		kind{"nats", s.NATS != nil},
		kind{"file", s.File != nil})
	switch {
	case s.Webhook != nil:
		s.Webhook.check(a.key("webhook"))
	case s.Kafka != nil:
		s.Kafka.check(a.key("kafka"))
	case s.NATS != nil:
		s.NATS.check(a.key("nats"))
	case s.File != nil:
		at := a.key("file").key("path")
		checkText(at, s.File.Path)
		// Two writers would cut off each other's lines when a write fails.
		if first, twice := n.files[s.File.Path]; twice {
			at.fault("another sink writes to the same file, at "+first.String(), "give each file sink a file of its own, or use one sink")
		}
		n.files[s.File.Path] = at
	}
}

func (f *Filter) check(a place, n *names) {
	for i, name := range f.Tenants {
		n.tenants.refer(a.key("tenants").index(i), name)
	}
	for i, pattern := range f.Types {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			a.key("types").index(i).fault("is not a pattern", "write a type such as Microsoft.Graph.Message*")
		}
	}
}

func (w *Webhook) check(a place) {
	checkURL(a.key("url"), w.URL, "http", "https")
	if len(w.Secrets) < 1 || len(w.Secrets) > 2 {
		a.key("secrets").fault("is not one secret or two", "name one, or two while one replaces the other")
	}
}

// checkSecrets applies the rules that need the values of secrets.
func (s *Sink) checkSecrets(a place) {
	if s.Webhook == nil {
		return
	}
	const remedy = "use whsec_ and the output of openssl rand -base64 32, or any other text of 24 bytes or more"
	secrets := s.Webhook.Secrets
	for i, secret := range secrets {
		at, text := a.key("webhook").key("secrets").index(i), secret.Text()
		key, err := webhookKey(text)
		switch {
		case text == "": // It could not be read, which is a fault already.
		case err != nil:
			at.fault("the secret in "+secret.Source()+" has no base64 after "+webhookSecretPrefix, remedy)
		case len(key) < minWebhookKeyBytes:
			at.fault("the secret in "+secret.Source()+" has a key of "+strconv.Itoa(len(key))+" bytes", remedy)
		case i > 0 && text == secrets[0].Text():
			at.fault("is the same secret as secrets[0]", "remove one")
		}
	}
}

// webhookKey reads a secret as Standard Webhooks writes it, or takes its bytes.
func webhookKey(text string) ([]byte, error) {
	encoded, found := strings.CutPrefix(text, webhookSecretPrefix)
	if !found {
		return []byte(text), nil
	}
	return base64.StdEncoding.DecodeString(encoded)
}

func (k *Kafka) check(a place) {
	if len(k.Brokers) == 0 {
		a.key("brokers").fault("names no broker", "name one such as kafka:9092")
	}
	for i, broker := range k.Brokers {
		checkAddress(a.key("brokers").index(i), broker)
	}
	checkText(a.key("topic"), k.Topic)
	if k.SASL == nil {
		return
	}
	at := a.key("sasl")
	checkOneOf(at.key("mechanism"), k.SASL.Mechanism, "OAUTHBEARER")
	if k.SASL.AzureCredential == nil {
		at.key("azureCredential").fault("is missing", "write one such as {workloadIdentity: {}}")
		return
	}
	k.SASL.AzureCredential.check(at.key("azureCredential"))
}

func (t *NATS) check(a place) {
	checkURL(a.key("url"), t.URL, "nats", "tls", "ws", "wss")
	checkText(a.key("subject"), t.Subject)
}
