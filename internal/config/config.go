package config

import "time"

// Config is the whole configuration of one instance, included files merged in.
type Config struct {
	// Name of this instance. It enters every URL token, so that two instances never touch each other's subscriptions.
	// A DNS-1123 label of at most 63 characters. Default graphsubd.
	Instance string `yaml:"instance" jsonschema:"maxLength=63,default=graphsubd"`
	// How Graph reaches the public listener: https, except on loopback; no query and no fragment.
	PublicURL string `yaml:"publicURL" jsonschema:"required,format=uri"`
	// Addresses of the three listeners.
	Listen Listen `yaml:"listen"`
	// Keys of the URL tokens and clientState values, 32 bytes or more each. The first signs, all verify.
	SigningKeys []Secret `yaml:"signingKeys" jsonschema:"required,minItems=1"`
	// What the public listener accepts.
	Receiver Receiver `yaml:"receiver"`
	// Where the durable state is.
	Store Store `yaml:"store" jsonschema:"required"`
	// How one replica becomes the leader.
	Lease Lease `yaml:"lease"`
	// Registrations in Entra ID. One serves many tenants.
	Apps []App `yaml:"apps"`
	// Tenants whose resources are watched.
	Tenants []Tenant `yaml:"tenants"`
	// Key pairs for notifications that carry resource data.
	Certificates []Certificate `yaml:"certificates"`
	// Patterns of further files, relative to this one, with more apps, tenants, subscriptions and sinks.
	Include []string `yaml:"include"`
	// Subscriptions to keep alive.
	Subscriptions []Subscription `yaml:"subscriptions"`
	// Where events go.
	Sinks []Sink `yaml:"sinks"`
	// Who may use the admin listener.
	Admin Admin `yaml:"admin"`
	// What the metrics show.
	Metrics Metrics `yaml:"metrics"`
	// What is logged, and how.
	Log Log `yaml:"log"`

	warnings []string
}

// fragment is what an included file may hold.
type fragment struct {
	Apps          []App          `yaml:"apps"`
	Tenants       []Tenant       `yaml:"tenants"`
	Subscriptions []Subscription `yaml:"subscriptions"`
	Sinks         []Sink         `yaml:"sinks"`
}

// Receiver says what the public listener accepts.
type Receiver struct {
	// Largest notification body. At least 1KiB. Default 8MiB.
	MaxBody Bytes `yaml:"maxBody" jsonschema:"default=8MiB"`
	// Address ranges of proxies whose forwarding headers are believed. Default none.
	TrustedProxies []string `yaml:"trustedProxies"`
	// Address ranges that may send notifications. Default all.
	AllowedSources []string `yaml:"allowedSources"`
	// Where Graph calls an endpoint slow. It delays or drops what it sends to one that is, so a person is told at half of each ratio.
	Marks Marks `yaml:"marks"`
}

// Marks are Graph's limits for late answers, over windows of ten minutes. It has moved them before.
type Marks struct {
	// An answer that takes longer is slow. Above zero. Default 3s.
	SlowAfter time.Duration `yaml:"slowAfter" jsonschema:"default=3s"`
	// With more slow answers than this Graph delays notifications. Above 0 and at most 1. Default 0.1.
	SlowRatio float64 `yaml:"slowRatio" jsonschema:"exclusiveMinimum=0,maximum=1,default=0.1"`
	// An answer that takes longer counts towards dropping. Above zero. Default 10s.
	DropAfter time.Duration `yaml:"dropAfter" jsonschema:"default=10s"`
	// With more of these than this Graph drops notifications. Above 0 and at most 1. Default 0.15.
	DropRatio float64 `yaml:"dropRatio" jsonschema:"exclusiveMinimum=0,maximum=1,default=0.15"`
}

// Metrics says what the metrics show.
type Metrics struct {
	// Expiry and last notification by tenant and subscription too, for at most 2,000. Default false.
	PerSubscription bool `yaml:"perSubscription" jsonschema:"default=false"`
}

// Log says what is logged, and how.
type Log struct {
	// Least level that is logged: debug, info, warn or error. Default info.
	Level string `yaml:"level" jsonschema:"enum=debug,enum=info,enum=warn,enum=error,default=info"`
	// Form of a line: text, json, or auto, which is text on a terminal and JSON otherwise. Default auto.
	Format string `yaml:"format" jsonschema:"enum=auto,enum=text,enum=json,default=auto"`
}

// Warnings returns what is allowed but probably not meant, one line each with
// its position, such as a sink that nothing uses.
func (c *Config) Warnings() []string {
	return c.warnings
}

func (c *Config) setDefaults() {
	c.Instance = "graphsubd"
}

func (r *Receiver) setDefaults() {
	r.MaxBody = 8 * mebibyte
}

func (m *Marks) setDefaults() {
	*m = Marks{SlowAfter: 3 * time.Second, SlowRatio: 0.1, DropAfter: 10 * time.Second, DropRatio: 0.15}
}

func (l *Log) setDefaults() {
	l.Level, l.Format = "info", "auto"
}

// check applies the rules of the sections that only the main file has.
func (c *Config) check(a place, n *names, inKubernetes bool) {
	checkLabel(a.key("instance"), c.Instance)
	c.PublicURL = checkBaseURL(a.key("publicURL"), c.PublicURL)
	c.Listen.check(a.key("listen"))
	if len(c.SigningKeys) == 0 {
		a.key("signingKeys").fault("names no key", "name a file with 32 or more random bytes: [{file: PATH}]")
	}
	c.Receiver.check(a.key("receiver"))
	c.Store.check(a.key("store"))
	c.Lease.check(a.key("lease"), &c.Store, inKubernetes)
	for i := range c.Certificates {
		c.Certificates[i].check(a.key("certificates").index(i), n)
	}
	c.Admin.check(a.key("admin"))
	c.Log.check(a.key("log"))
}

func (r *Receiver) check(a place) {
	if r.MaxBody < kibibyte {
		a.key("maxBody").fault("is below 1KiB", "write a size such as 8MiB")
	}
	checkPrefixes(a.key("trustedProxies"), r.TrustedProxies)
	checkPrefixes(a.key("allowedSources"), r.AllowedSources)
	at := a.key("marks")
	checkPositive(at.key("slowAfter"), r.Marks.SlowAfter)
	checkPositive(at.key("dropAfter"), r.Marks.DropAfter)
	checkShare(at.key("slowRatio"), r.Marks.SlowRatio)
	checkShare(at.key("dropRatio"), r.Marks.DropRatio)
}

func (l *Log) check(a place) {
	checkOneOf(a.key("level"), l.Level, "debug", "info", "warn", "error")
	checkOneOf(a.key("format"), l.Format, "auto", "text", "json")
}
