//go:build unix

// Package stdio_test drives pml stdio as agent hosts and MCP clients do, and offers servers through it.
package stdio_test

import (
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
)

func TestMain(m *testing.M) { pmltest.Main(m) }
