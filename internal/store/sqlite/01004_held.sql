-- +goose Up
-- Whether a record's next step waits for a person, whatever its reason says.
ALTER TABLE subscription ADD COLUMN held INTEGER NOT NULL DEFAULT 0;
UPDATE subscription SET held = 1 WHERE reason = 'mass_change_held';

-- +goose Down
ALTER TABLE subscription DROP COLUMN held;
