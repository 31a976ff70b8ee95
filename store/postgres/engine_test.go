package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/core/skiptest"
)

// inDatabase are surroundings in a database of their own.
func inDatabase(t *testing.T) func() enginetest.Surroundings {
	address := database(t)
	shortGrace(t, address)
	address = fewConnections(t, address)
	return func() enginetest.Surroundings {
		s, err := openUnclosed(address, wall{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// shortGrace has a runner that lost its lock count as dead after 50 ms instead of a second: what the engine's suite
// kills are stores in one process, which does not end, so that it would mostly wait. TestRunners_Lease has the second.
func shortGrace(t *testing.T, address string) {
	t.Helper()
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, `DO $do$ BEGIN
		EXECUTE 'CREATE OR REPLACE VIEW living_runners AS ' ||
			replace(pg_get_viewdef('living_runners'::regclass), '(r.missing_since + ''00:00:01''::interval)', '(r.missing_since + ''00:00:00.05''::interval)');
		ASSERT pg_get_viewdef('living_runners'::regclass) LIKE '%00:00:00.05%';
	END $do$`)
	if err != nil {
		t.Fatal(err)
	}
}

func TestEngine(t *testing.T) {
	t.Parallel()
	requirePostgres(t)
	enginetest.Run(t, inDatabase)
}

// The suite on bbolt stops pml at more commits of all programs. Here each program has a database, and each process of it
// some ten connections, which cost three seconds of processor time where a fork is slow.
func TestEngine_EveryCommit(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "stops many runs at some of their commits")
	requirePostgres(t)
	enginetest.EveryCommit(t, inDatabase, 16, 1, false)
}
