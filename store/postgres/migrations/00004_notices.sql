-- +goose Up
-- What is to be sent to people about approvals: one document of one row.
CREATE TABLE notices (
	one     boolean PRIMARY KEY DEFAULT true CHECK (one),
	version bigint NOT NULL DEFAULT 0,
	data    bytea
);
INSERT INTO notices DEFAULT VALUES;

-- +goose Down
DROP TABLE notices;
