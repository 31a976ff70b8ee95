//go:build unix

// Package execute_test runs scripts and DAGs from the command line to each of their ends.
package execute_test

import (
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
)

func TestMain(m *testing.M) { pmltest.Main(m) }
