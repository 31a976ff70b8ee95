//go:build unix

// Package servers_test adds, imports, installs, updates and connects MCP servers, and meets bad ones.
package servers_test

import (
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
)

func TestMain(m *testing.M) { pmltest.Main(m) }
