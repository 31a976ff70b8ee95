-- +goose Up
-- Who has halted all calls, null for nobody. A server that does not know of it would
-- make calls all the same, so that this is a format of its own.
ALTER TABLE guard ADD COLUMN halt bytea;

-- +goose Down
ALTER TABLE guard DROP COLUMN halt;
