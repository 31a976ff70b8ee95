-- +goose Up
-- What decisions need, whatever the configuration of the server that makes them:
-- one row.
CREATE TABLE guard (
	one   boolean PRIMARY KEY DEFAULT true CHECK (one),
	pin   text NOT NULL DEFAULT '', -- the hash of the PIN, empty for none
	tries bytea                     -- wrong PINs
);
INSERT INTO guard DEFAULT VALUES;

-- +goose Down
DROP TABLE guard;
