package postgres_test

import (
	"context"
	"testing"

	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/core/skiptest"
)

// inDatabase are surroundings in a database of their own.
func inDatabase(t *testing.T) func() enginetest.Surroundings {
	address := fewConnections(t, database(t))
	return func() enginetest.Surroundings {
		s, err := openUnclosed(address, wall{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

func TestEngine(t *testing.T) {
	t.Parallel()
	requirePostgres(t).Close(context.Background())
	enginetest.Run(t, inDatabase)
}

// Without PML_TEST_REQUIRE=all pml is stopped at each 64th commit: the suite on bbolt does more.
func TestEngine_EveryCommit(t *testing.T) {
	t.Parallel()
	skiptest.Short(t, "stops many runs at some of their commits")
	requirePostgres(t).Close(context.Background())
	every := 64
	if skiptest.All(t) && !skiptest.Race {
		every = 1
	}
	enginetest.EveryCommit(t, inDatabase, every, false)
}
