//go:build unix

// Package server_test drives pml serve and what talks to it: detached runs, take-over, kills, streams, both stores.
package server_test

import (
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
)

func TestMain(m *testing.M) { pmltest.Main(m) }
