package engine_test

import (
	"os"
	"testing"

	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/core/skiptest"
)

// inFile are surroundings in a file of their own.
func inFile(t *testing.T) func() enginetest.Surroundings {
	dir := t.TempDir()
	return func() enginetest.Surroundings { return openBolt(t, dir) }
}

func TestSurroundings(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, inFile)
}

// Without PML_TEST_REQUIRE=all, and with the race detector, pml is stopped before the first and after the fifth of eight
// commits of every second program. With PML_TEST_CRASH=2 the second process dies as well.
//
// Scenario 5: a call that ran before an approval is not made again.
// Scenario 34: whatever ends pml, the run goes on from its journal.
func TestCrash_EveryCommit(t *testing.T) {
	t.Parallel()
	skiptest.Short(t, "stops many runs at each of their commits")
	twice := os.Getenv("PML_TEST_CRASH") == "2"
	every := 8
	if twice || !skiptest.Race && skiptest.All(t) {
		every = 1
	}
	enginetest.EveryCommit(t, inFile, every, 2, twice)
}
