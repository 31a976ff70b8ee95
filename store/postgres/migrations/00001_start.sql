-- +goose Up

-- Times are nanoseconds since 1970, so that they are kept exactly; leases alone
-- are read from the clock of the database. What a column and data both hold is
-- read from the column: others than the runner change it.
CREATE TABLE workflows (
    id           text COLLATE "C" PRIMARY KEY,
    owner        text NOT NULL,
    workspace    text NOT NULL,
    remote       boolean NOT NULL,
    state        text NOT NULL,
    created_at   bigint NOT NULL,
    expires_at   bigint,
    runner       text NOT NULL,
    epoch        bigint NOT NULL,
    dag_version  integer NOT NULL,
    seen_version integer NOT NULL,
    total_layers integer NOT NULL,
    abort        bytea,
    journal_seq  bigint NOT NULL,
    key          text NOT NULL,
    last_step    text NOT NULL,
    open         integer NOT NULL,
    undone       integer NOT NULL,
    data         bytea NOT NULL,
    input        bytea,
    result       bytea
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
COMMENT ON COLUMN workflows.last_step IS 'the newest step: the next one names it, and a commit with an unknown outcome is looked up by it';
COMMENT ON COLUMN workflows.seen_version IS 'the DAG version that the runner goes by';
COMMENT ON COLUMN workflows.open IS 'how many approvals are recorded as open';
COMMENT ON COLUMN workflows.undone IS 'how many decisions nobody has acted upon';
CREATE INDEX workflows_created ON workflows (created_at, id);
CREATE INDEX workflows_state ON workflows (state, created_at, id);
CREATE INDEX workflows_owner ON workflows (owner, created_at, id) WHERE owner <> '';
CREATE INDEX workflows_key ON workflows (key) WHERE key <> '';
CREATE INDEX workflows_due ON workflows (expires_at) WHERE state IN ('waiting', 'interrupted');
CREATE INDEX workflows_todo ON workflows (created_at, id)
    WHERE NOT remote AND (state IN ('running', 'interrupted') OR state = 'waiting' AND (abort IS NOT NULL OR undone > 0 OR seen_version < dag_version));

CREATE TABLE workflow_dags (
    workflow_id text COLLATE "C" NOT NULL,
    version     integer NOT NULL,
    program     bytea NOT NULL,
    intent      text NOT NULL,
    created_at  bigint NOT NULL,
    expires_at  bigint,
    PRIMARY KEY (workflow_id, version)
);

-- What was added to runs, one row for each step: its records, its events and its
-- checkpoint. Lists are packed by the program (see pack.go); nothing is
-- compressed that fits into a page.
CREATE TABLE steps (
    workflow_id text COLLATE "C" NOT NULL,
    owner       text NOT NULL,
    record      bigint NOT NULL,
    records     bytea,
    event       bigint NOT NULL,
    types       text NOT NULL,
    events      bytea,
    checkpoint  bytea
) WITH (toast_tuple_target = 8160);
COMMENT ON COLUMN steps.record IS 'the number of the last record';
COMMENT ON COLUMN steps.event IS 'the number of the last event';
COMMENT ON COLUMN steps.types IS 'the types of the events, each once, with commas around them';
CREATE UNIQUE INDEX steps_event ON steps (event) WHERE events IS NOT NULL;
CREATE INDEX steps_workflow ON steps (workflow_id, event);
CREATE INDEX steps_owner ON steps (owner, event) WHERE owner <> '' AND events IS NOT NULL;

CREATE TABLE approvals (
    id          text COLLATE "C" PRIMARY KEY,
    workflow_id text COLLATE "C" NOT NULL,
    owner       text NOT NULL,
    workspace   text NOT NULL,
    state       text NOT NULL,
    used        boolean NOT NULL,
    created_at  bigint NOT NULL,
    expires_at  bigint,
    data        bytea NOT NULL,
    context     bytea
);
CREATE INDEX approvals_workflow ON approvals (workflow_id);
CREATE INDEX approvals_open ON approvals (expires_at) WHERE state = 'open';

CREATE TABLE audit (
    seq  bigint PRIMARY KEY,
    data bytea NOT NULL
);

CREATE TABLE idempotency_keys (
    hash        bytea PRIMARY KEY,
    workflow_id text COLLATE "C" NOT NULL
);

-- Numbers that are given in the order of commits: whoever takes one keeps the
-- row locked until its transaction has ended. head is what the next row of the
-- audit log is chained to.
CREATE TABLE counters (
    name  text PRIMARY KEY,
    value bigint NOT NULL,
    head  text NOT NULL
) WITH (fillfactor = 10);
INSERT INTO counters VALUES ('events', 0, ''), ('audit', 0, '');

CREATE TABLE runners (
    id            text COLLATE "C" PRIMARY KEY,
    lock          bigint NOT NULL,
    pid           integer NOT NULL,
    boot          timestamptz NOT NULL,
    lease_until   timestamptz NOT NULL,
    missing_since timestamptz,
    machine       text NOT NULL DEFAULT '',
    process       integer NOT NULL DEFAULT 0,
    address       inet
);
COMMENT ON COLUMN runners.pid IS 'the backend that holds the advisory lock; 0 where session locks do not work';
COMMENT ON COLUMN runners.missing_since IS 'when somebody found the lock free: its connection has ended, its process perhaps not';

COMMENT ON COLUMN runners.machine IS 'who sees the same process numbers; empty where that is not known';
COMMENT ON COLUMN runners.process IS 'the process of the runner on its machine: others there see at once when it is gone';
COMMENT ON COLUMN runners.address IS 'where the database sees it; null for a local socket';

-- The database empties this table when it recovers from a crash, or takes over
-- from another one: then no session lock of before is left.
CREATE UNLOGGED TABLE boots (
    one boolean PRIMARY KEY CHECK (one),
    at  timestamptz NOT NULL
);

-- +goose StatementBegin
-- pml_boot is when the database began to serve: no session lock is older. Until
-- a runner has noted it that is now. Every role can read what it is made of.
CREATE FUNCTION pml_boot() RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT greatest(pg_postmaster_start_time(), coalesce((SELECT b.at FROM boots b), now()))
$$;
-- +goose StatementEnd

-- missing says that a runner's lock, taken since the database serves, is free.
CREATE VIEW standing_runners AS
    WITH b AS MATERIALIZED (SELECT pml_boot() AS at)
    SELECT r.*, b.at AS serves_since, r.pid <> 0 AND r.boot = b.at AND NOT EXISTS (
        SELECT 1 FROM pg_locks l
        WHERE l.locktype = 'advisory' AND l.granted AND l.pid = r.pid
          AND (l.classid::bigint << 32 | l.objid::bigint) = r.lock) AS missing
    FROM runners r, b;

-- The runners that live. The lease decides, a second of grace included; after a
-- restart of the database everybody has the time of a lease to come back. A
-- runner that lost its lock has a second from when somebody noticed: a
-- connection can break while its process lives. Who ends in order takes its row
-- along, and is dead at once; so is one whose process is known to be gone.
CREATE VIEW living_runners AS
    SELECT r.id, r.lock, r.pid, r.missing FROM standing_runners r
    WHERE clock_timestamp() < greatest(r.lease_until, r.serves_since + interval '10 seconds') + interval '1 second'
      AND (NOT r.missing OR r.missing_since IS NULL OR clock_timestamp() < r.missing_since + interval '1 second');
