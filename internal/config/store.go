package config

import (
	"net/url"
	"time"
)

// Store says where the durable state is and how much of it is kept.
// Exactly one of SQLite and Postgres is set.
type Store struct {
	// A database file beside the process, for one replica.
	SQLite *SQLite `yaml:"sqlite"`
	// A PostgreSQL server, for two replicas or more.
	Postgres *Postgres `yaml:"postgres"`
	// How long and how much is kept.
	Retention Retention `yaml:"retention"`
	// How much may wait to be delivered before notifications are answered 503.
	MaxBacklog Backlog `yaml:"maxBacklog"`
	// How much may be in quarantine. What is beyond is counted and not kept.
	MaxQuarantine Quarantine `yaml:"maxQuarantine"`
}

// SQLite is a database file.
type SQLite struct {
	// The file, on a disk that outlives the process and is not a network file system.
	Path string `yaml:"path" config:"path" jsonschema:"required"`
}

// Postgres is a PostgreSQL server.
type Postgres struct {
	// Connection URL; it may hold a password, so it is a secret.
	URL Secret `yaml:"url" jsonschema:"required"`
	// Sign-in with a token of Azure instead of a password.
	AzureCredential *AzureCredential `yaml:"azureCredential"`
	// Authorities that may have signed the server's certificate, in PEM. Default the system's.
	CAFile string `yaml:"caFile" config:"ca"`
}

// Retention says how long and how much is kept. Each value is above zero.
type Retention struct {
	// Notifications that every sink has. Default 72h.
	Delivered time.Duration `yaml:"delivered" jsonschema:"default=72h"`
	// All kept notifications together; the oldest delivered ones go first. Default 20GiB.
	MaxBytes Bytes `yaml:"maxBytes" jsonschema:"default=20GiB"`
	// Dead letters and quarantined items. Default 336h.
	DeadLetters time.Duration `yaml:"deadLetters" jsonschema:"default=336h"`
	// Records of what people and the leader did. Default 2160h.
	Audit time.Duration `yaml:"audit" jsonschema:"default=2160h"`
}

// Backlog bounds what waits to be delivered. Each value is above zero.
type Backlog struct {
	// Notifications. Default 5000000.
	Rows int64 `yaml:"rows" jsonschema:"minimum=1,default=5000000"`
	// Their bodies together. Default 8GiB.
	Bytes Bytes `yaml:"bytes" jsonschema:"default=8GiB"`
}

// Quarantine bounds what is kept and not handed on. Each value is above zero.
type Quarantine struct {
	// Items. Default 100000.
	Rows int64 `yaml:"rows" jsonschema:"minimum=1,default=100000"`
	// Their bodies together. Default 256MiB.
	Bytes Bytes `yaml:"bytes" jsonschema:"default=256MiB"`
}

func (q *Quarantine) setDefaults() {
	*q = Quarantine{Rows: 100_000, Bytes: 256 * mebibyte}
}

func (r *Retention) setDefaults() {
	const day = 24 * time.Hour
	*r = Retention{Delivered: 3 * day, MaxBytes: 20 * gibibyte, DeadLetters: 14 * day, Audit: 90 * day}
}

func (b *Backlog) setDefaults() {
	*b = Backlog{Rows: 5_000_000, Bytes: 8 * gibibyte}
}

func (s *Store) check(a place) {
	checkOneKind(a, kind{"sqlite", s.SQLite != nil}, kind{"postgres", s.Postgres != nil})
	if s.SQLite != nil {
		checkText(a.key("sqlite").key("path"), s.SQLite.Path)
	}
	if p := s.Postgres; p != nil {
		at := a.key("postgres")
		p.URL.checkSet(at.key("url"))
		if p.AzureCredential != nil {
			p.AzureCredential.check(at.key("azureCredential"))
		}
	}
	at := a.key("retention")
	checkPositive(at.key("delivered"), s.Retention.Delivered)
	checkPositive(at.key("maxBytes"), s.Retention.MaxBytes)
	checkPositive(at.key("deadLetters"), s.Retention.DeadLetters)
	checkPositive(at.key("audit"), s.Retention.Audit)
	checkPositive(a.key("maxBacklog").key("rows"), s.MaxBacklog.Rows)
	checkPositive(a.key("maxBacklog").key("bytes"), s.MaxBacklog.Bytes)
	checkPositive(a.key("maxQuarantine").key("rows"), s.MaxQuarantine.Rows)
	checkPositive(a.key("maxQuarantine").key("bytes"), s.MaxQuarantine.Bytes)
}

// place is s without the user and the password of the database.
func (s *Store) place() Store {
	without := *s
	if s.Postgres == nil || s.Postgres.URL.value == nil {
		return without
	}
	postgres := *s.Postgres
	if address, err := url.Parse(*postgres.URL.value); err == nil {
		address.User = nil
		bare := address.String()
		postgres.URL.value = &bare
	}
	without.Postgres = &postgres
	return without
}
