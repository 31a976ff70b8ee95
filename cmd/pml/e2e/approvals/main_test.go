//go:build unix

// Package approvals_test decides what stops a run: gates, PIN, trust, remembered rules.
package approvals_test

import (
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
)

func TestMain(m *testing.M) { pmltest.Main(m) }
