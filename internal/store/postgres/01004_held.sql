-- +goose Up
SET LOCAL lock_timeout = '1s';
-- Whether a record's next step waits for a person, whatever its reason says.
ALTER TABLE subscription ADD COLUMN held BOOLEAN NOT NULL DEFAULT FALSE;
UPDATE subscription SET held = TRUE WHERE reason = 'mass_change_held';

-- +goose Down
ALTER TABLE subscription DROP COLUMN held;
