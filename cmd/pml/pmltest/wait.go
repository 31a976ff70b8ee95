package pmltest

import (
	"testing"
	"time"

	"github.com/casys-ai/pml/core/skiptest"
)

// Patience bounds every wait of a test. It is far above what anything takes,
// also on a machine with more to do.
var Patience = scaled(2 * time.Minute)

// scaled is a time that the race detector makes longer.
func scaled(d time.Duration) time.Duration {
	if skiptest.Race {
		return 3 * d
	}
	return d
}

// WaitFor waits until a condition holds.
func WaitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	limit := time.After(Patience)
	for {
		began := time.Now()
		if ok() {
			return
		}
		// Many a look starts a process: it must not be most of what this machine does.
		again := time.NewTimer(min(max(3*time.Since(began), 2*time.Millisecond), 200*time.Millisecond))
		select {
		case <-again.C:
		case <-limit:
			t.Fatalf("never: %s", what)
		}
	}
}

// LongPatience bounds what takes many steps, in tests in which servers come and go.
var LongPatience = 3 * Patience
