-- +goose Up
-- What Graph names holds for the tenant that it was named in. learned_limit,
-- which knew no tenant, stays for an older graphsubd beside this one.
CREATE TABLE tenant_limit (
  tenant        TEXT COLLATE "C" NOT NULL,
  resource_type TEXT COLLATE "C" NOT NULL,
  lifetime      BIGINT NOT NULL, -- microseconds
  learned_at    BIGINT NOT NULL,
  PRIMARY KEY (tenant, resource_type)
);

-- +goose Down
DROP TABLE tenant_limit;
