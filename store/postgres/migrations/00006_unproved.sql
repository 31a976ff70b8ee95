-- +goose Up
-- A PIN that came from a configuration after there were runs, and that nobody has typed at
-- a terminal since, shows no person.
ALTER TABLE guard ADD COLUMN unproved boolean NOT NULL DEFAULT false;

-- +goose Down
ALTER TABLE guard DROP COLUMN unproved;
