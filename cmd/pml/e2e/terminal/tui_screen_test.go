//go:build unix

package terminal_test

import (
	"context"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
)

// startTUI starts pml tui on a terminal of a size that answers no query.
func startTUI(m *pmltest.Machine, cols, rows uint16, args ...string) *pmltest.Emulator {
	m.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), pmltest.LongPatience)
	m.T.Cleanup(cancel)
	return m.OnScreen(cols, rows, m.Command(ctx, append([]string{"tui"}, args...)...))
}
