-- Instants are UTC microseconds; 0 is none. The thousands of a version are the
-- major: within one, migrations only add, so that the binary before and the one
-- after can share the database.

-- +goose Up

CREATE TABLE leader (
  one    INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
  term   INTEGER NOT NULL,
  holder TEXT    NOT NULL,
  since  INTEGER NOT NULL
) STRICT;
INSERT INTO leader (one, term, holder, since) VALUES (1, 0, '', 0);

CREATE TABLE wish (
  name       TEXT    NOT NULL PRIMARY KEY,
  source     TEXT    NOT NULL,
  gen        TEXT    NOT NULL,
  spec       TEXT    NOT NULL,
  version    INTEGER NOT NULL,
  deleted_at INTEGER NOT NULL
) STRICT;

CREATE TABLE subscription (
  name       TEXT    NOT NULL,
  gen        TEXT    NOT NULL,
  id         TEXT    NOT NULL,
  tenant     TEXT    NOT NULL,
  resource   TEXT    NOT NULL,
  state      TEXT    NOT NULL,
  reason     TEXT    NOT NULL,
  detail     TEXT    NOT NULL,
  created_at INTEGER NOT NULL,
  granted_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  renew_at   INTEGER NOT NULL,
  attempt    INTEGER NOT NULL,
  next_at    INTEGER NOT NULL,
  ambiguous  INTEGER NOT NULL,
  lost_at    INTEGER NOT NULL,
  lost_cause TEXT    NOT NULL,
  term       INTEGER NOT NULL,
  PRIMARY KEY (name, gen)
) STRICT;

-- Ids are in lower case. "to" is 0 for an id that is current.
CREATE TABLE subscription_id (
  id     TEXT    NOT NULL PRIMARY KEY,
  name   TEXT    NOT NULL,
  gen    TEXT    NOT NULL,
  "from" INTEGER NOT NULL,
  "to"   INTEGER NOT NULL
) STRICT;

CREATE TABLE learned_limit (
  resource_type TEXT    NOT NULL PRIMARY KEY,
  lifetime      INTEGER NOT NULL, -- microseconds
  learned_at    INTEGER NOT NULL
) STRICT;

CREATE TABLE signing_key (
  fingerprint TEXT    NOT NULL PRIMARY KEY,
  added_at    INTEGER NOT NULL
) STRICT;

CREATE TABLE keyring (
  id       TEXT    NOT NULL PRIMARY KEY,
  wrapped  BLOB    NOT NULL,
  added_at INTEGER NOT NULL
) STRICT;

CREATE TABLE post (
  id                TEXT NOT NULL PRIMARY KEY,
  validation_tokens TEXT NOT NULL
) STRICT;

-- Without a rowid an append touches this tree and the one of states, and both
-- only at their end: ids ascend.
CREATE TABLE notification (
  id              TEXT    NOT NULL PRIMARY KEY,
  state           TEXT    NOT NULL, -- new, held, routed, duplicate
  name            TEXT    NOT NULL,
  gen             TEXT    NOT NULL,
  subscription_id TEXT    NOT NULL,
  tenant          TEXT    NOT NULL,
  received_at     INTEGER NOT NULL,
  kind            TEXT    NOT NULL,
  origin          TEXT    NOT NULL,
  type            TEXT    NOT NULL,
  evidence        BLOB    NOT NULL, -- keys of 16 bytes, one after another
  post_id         TEXT    NOT NULL,
  item            BLOB    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX notification_state ON notification (state, id);
CREATE INDEX notification_held ON notification (name) WHERE state = 'held';
CREATE INDEX notification_held_since ON notification (received_at) WHERE state = 'held';

-- One row for each name, so that nobody has to search the notifications.
CREATE TABLE last_notification (
  name TEXT    NOT NULL PRIMARY KEY,
  at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE seen (
  key   BLOB    NOT NULL PRIMARY KEY,
  until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX seen_until ON seen (until);

CREATE TABLE delivery (
  id              INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  notification_id TEXT    NOT NULL,
  sink            TEXT    NOT NULL,
  key             TEXT    NOT NULL,
  state           TEXT    NOT NULL DEFAULT 'pending', -- pending, delivered, dead
  attempts        INTEGER NOT NULL DEFAULT 0,
  next_at         INTEGER NOT NULL, -- of a claimed one: when another may take it
  owner           TEXT    NOT NULL DEFAULT '',
  until           INTEGER NOT NULL DEFAULT 0,
  last_error      TEXT    NOT NULL DEFAULT '',
  bytes           INTEGER NOT NULL, -- of the item
  created_at      INTEGER NOT NULL,
  settled_at      INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX delivery_notification ON delivery (notification_id);
CREATE INDEX delivery_due ON delivery (sink, next_at, id) WHERE state = 'pending';
CREATE INDEX delivery_pending ON delivery (sink, id, bytes) WHERE state = 'pending';
CREATE INDEX delivery_dead ON delivery (sink, settled_at) WHERE state = 'dead';

CREATE TABLE shard (
  sink  TEXT    NOT NULL,
  n     INTEGER NOT NULL,
  owner TEXT    NOT NULL,
  until INTEGER NOT NULL,
  PRIMARY KEY (sink, n)
) STRICT;

CREATE TABLE lifecycle (
  id              TEXT    NOT NULL PRIMARY KEY,
  name            TEXT    NOT NULL,
  gen             TEXT    NOT NULL,
  subscription_id TEXT    NOT NULL,
  event           TEXT    NOT NULL,
  received_at     INTEGER NOT NULL
) STRICT;

CREATE TABLE command (
  id           TEXT    NOT NULL PRIMARY KEY,
  name         TEXT    NOT NULL,
  action       TEXT    NOT NULL,
  arguments    TEXT    NOT NULL,
  requested_by TEXT    NOT NULL,
  requested_at INTEGER NOT NULL,
  state        TEXT    NOT NULL,
  result       TEXT    NOT NULL,
  settled_at   INTEGER NOT NULL
) STRICT;

CREATE TABLE gap (
  name         TEXT    NOT NULL,
  "from"       INTEGER NOT NULL,
  "to"         INTEGER NOT NULL,
  cause        TEXT    NOT NULL,
  state        TEXT    NOT NULL, -- open, closed
  recovered_at INTEGER NOT NULL,
  recovered_by TEXT    NOT NULL,
  PRIMARY KEY (name, "from", cause)
) STRICT;
CREATE INDEX gap_open ON gap (state) WHERE state = 'open';

CREATE TABLE quarantine (
  id              TEXT    NOT NULL PRIMARY KEY,
  reason          TEXT    NOT NULL,
  name            TEXT    NOT NULL,
  gen             TEXT    NOT NULL,
  subscription_id TEXT    NOT NULL,
  tenant          TEXT    NOT NULL,
  received_at     INTEGER NOT NULL,
  kind            TEXT    NOT NULL,
  origin          TEXT    NOT NULL,
  type            TEXT    NOT NULL,
  evidence        BLOB    NOT NULL,
  post_id         TEXT    NOT NULL,
  item            BLOB    NOT NULL,
  quarantined_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX quarantine_reason ON quarantine (reason);
CREATE INDEX quarantine_since ON quarantine (quarantined_at);

CREATE TABLE audit (
  id      TEXT    NOT NULL PRIMARY KEY,
  at      INTEGER NOT NULL,
  actor   TEXT    NOT NULL,
  action  TEXT    NOT NULL,
  subject TEXT    NOT NULL,
  detail  TEXT    NOT NULL
) STRICT;
CREATE INDEX audit_at ON audit (at);

-- +goose Down

DROP TABLE audit;
DROP TABLE quarantine;
DROP TABLE gap;
DROP TABLE command;
DROP TABLE lifecycle;
DROP TABLE shard;
DROP TABLE delivery;
DROP TABLE seen;
DROP TABLE last_notification;
DROP TABLE notification;
DROP TABLE post;
DROP TABLE keyring;
DROP TABLE signing_key;
DROP TABLE learned_limit;
DROP TABLE subscription_id;
DROP TABLE subscription;
DROP TABLE wish;
DROP TABLE leader;
