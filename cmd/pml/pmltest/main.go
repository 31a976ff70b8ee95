// Package pmltest is what the tests and benchmarks of the whole program share: pml as it is built, machines on which
// it runs, and what such a test asks of them.
package pmltest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/casys-ai/pml/core/skiptest"
)

// Main runs the tests of a package at the top of pml's module, where testdata and docs are; also those of a module below it.
func Main(m *testing.M) {
	if err := toRoot(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	skiptest.Overlap()
	skiptest.InMemory()
	heedHangup()
	os.Exit(m.Run())
}

// toRoot makes the folder of pml's go.mod the current one.
func toRoot() error {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "cmd", "pml", "main.go")); err == nil {
			return os.Chdir(dir)
		}
		if dir == filepath.Dir(dir) {
			return errors.New("no cmd/pml above the tests")
		}
		dir = filepath.Dir(dir)
	}
	return err
}

// Clock is the clock of this machine.
type Clock struct{}

// Now returns the time.
func (Clock) Now() time.Time { return time.Now() }
