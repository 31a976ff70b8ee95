//go:build unix

// Package crash_test kills, fills disks and restores: no step is lost or runs twice.
package crash_test

import (
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
)

func TestMain(m *testing.M) { pmltest.Main(m) }
