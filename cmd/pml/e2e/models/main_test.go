//go:build unix

// Package models_test calls models through the whole program.
package models_test

import (
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
)

func TestMain(m *testing.M) { pmltest.Main(m) }
