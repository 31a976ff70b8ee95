-- +goose Up
-- What hook flows did, and what they keep. The workspace is empty for a flow of the home.
CREATE TABLE flow_runs (
	id          text COLLATE "C" PRIMARY KEY,
	workspace   text NOT NULL,
	flow        text NOT NULL,
	workflow_id text COLLATE "C" NOT NULL,
	owner       text NOT NULL,
	started_at  bigint NOT NULL,
	data        bytea NOT NULL
);
CREATE INDEX flow_runs_flow ON flow_runs (workspace, flow, started_at, id);
CREATE INDEX flow_runs_workflow ON flow_runs (workflow_id);

CREATE TABLE flow_variables (
	workspace text NOT NULL,
	flow      text NOT NULL,
	version   bigint NOT NULL,
	data      bytea NOT NULL,
	PRIMARY KEY (workspace, flow)
);

-- +goose Down
DROP TABLE flow_variables;
DROP TABLE flow_runs;
