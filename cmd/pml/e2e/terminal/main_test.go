//go:build unix

// Package terminal_test looks at pml on a terminal: prompts, the screens, the plain view.
package terminal_test

import (
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
)

func TestMain(m *testing.M) { pmltest.Main(m) }
