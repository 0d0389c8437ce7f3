-- +goose Up
-- When notifications could be accepted, by whichever replica: "since" begins
-- the present stretch, "at" is when that was noted last.
CREATE TABLE receiving (
  one   BIGINT  NOT NULL PRIMARY KEY CHECK (one = 1),
  since BIGINT  NOT NULL,
  at    BIGINT  NOT NULL
);
INSERT INTO receiving (one, since, at) VALUES (1, 0, 0);

-- Stretches for which Graph had stopped to try; settled_at is 0 until the
-- sinks were told.
CREATE TABLE outage (
  "from"     BIGINT  NOT NULL PRIMARY KEY,
  "to"       BIGINT  NOT NULL,
  settled_at BIGINT  NOT NULL
);

-- +goose Down
DROP TABLE outage;
DROP TABLE receiving;
