-- +goose Up
-- When notifications could be accepted, by whichever replica: "since" begins
-- the present stretch, "at" is when that was noted last.
CREATE TABLE receiving (
  one   INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
  since INTEGER NOT NULL,
  at    INTEGER NOT NULL
) STRICT;
INSERT INTO receiving (one, since, at) VALUES (1, 0, 0);

-- Stretches for which Graph had stopped to try; settled_at is 0 until the
-- sinks were told.
CREATE TABLE outage (
  "from"     INTEGER NOT NULL PRIMARY KEY,
  "to"       INTEGER NOT NULL,
  settled_at INTEGER NOT NULL
) STRICT;

-- +goose Down
DROP TABLE outage;
DROP TABLE receiving;
