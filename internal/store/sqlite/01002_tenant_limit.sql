-- +goose Up
-- What Graph names holds for the tenant that it was named in. learned_limit,
-- which knew no tenant, stays for an older graphsubd beside this one.
CREATE TABLE tenant_limit (
  tenant        TEXT    NOT NULL,
  resource_type TEXT    NOT NULL,
  lifetime      INTEGER NOT NULL, -- microseconds
  learned_at    INTEGER NOT NULL,
  PRIMARY KEY (tenant, resource_type)
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE tenant_limit;
