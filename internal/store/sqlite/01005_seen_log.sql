-- +goose Up
-- The keys of each step of the router, of 16 bytes one after another. What is
-- not kept in memory goes on to the table seen, which is what was used before.
CREATE TABLE seen_log (
  id    INTEGER PRIMARY KEY,
  until INTEGER NOT NULL,
  keys  BLOB    NOT NULL
) STRICT;

-- +goose Down
DROP TABLE seen_log;
