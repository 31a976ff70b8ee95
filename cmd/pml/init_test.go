//go:build unix

package main

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// initBudget is how much the initialisation of one package may allocate, in
// bytes. What is above it belongs to the commands that need it.
const initBudget = 2 << 20

// TestInit_Budget: no package does work at the start that most commands do not
// need. Allocations are counted, because times depend on the machine.
func TestInit_Budget(t *testing.T) {
	t.Parallel()
	m := bareMachine(t)
	m.setenv("GODEBUG", "inittrace=1")
	trace := m.ok("version", "--json").Stderr // plainly asked for, it is answered before the packages
	line := regexp.MustCompile(`^init (\S+) @.* (\d+) bytes, \d+ allocs`)
	packages := 0
	for l := range strings.Lines(trace) {
		f := line.FindStringSubmatch(l)
		if f == nil {
			continue
		}
		packages++
		if n, err := strconv.Atoi(f[2]); err != nil || n > initBudget {
			t.Errorf("the initialisation of %s allocates %d bytes (%v)", f[1], n, err)
		}
	}
	if packages < 20 {
		t.Errorf("only %d packages in the trace: %s", packages, trace)
	}
}
