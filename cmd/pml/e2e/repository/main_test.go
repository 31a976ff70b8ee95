// Package repository_test checks the repository itself: its import rules, its documents and its reference.
package repository_test

import (
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
)

func TestMain(m *testing.M) { pmltest.Main(m) }
