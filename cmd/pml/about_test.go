//go:build unix

package main

import (
	"regexp"
	"strings"
	"testing"
)

// TestAbout_Same: the answer that is given before the libraries start is that of
// the ordinary command.
func TestAbout_Same(t *testing.T) {
	t.Parallel()
	m := bareMachine(t)
	want := m.ok("version", "--quiet").Stdout
	if !strings.HasPrefix(want, "pml ") {
		t.Fatalf("the ordinary command says %q", want)
	}
	for _, arg := range []string{"version", "--version"} {
		if got := m.ok(arg); got.Stdout != want || got.Stderr != "" {
			t.Errorf("pml %s: %q, %q, want %q", arg, got.Stdout, got.Stderr, want)
		}
	}
	if got := m.ok("version", "--json").Stdout; !strings.HasPrefix(got, "{") {
		t.Errorf("as JSON: %q", got)
	}
}

// TestAbout_Early: it is given before packages start that take long.
func TestAbout_Early(t *testing.T) {
	t.Parallel()
	m := bareMachine(t)
	m.setenv("GODEBUG", "inittrace=1")
	started := regexp.MustCompile(`(?m)^init (\S+) @`)
	for _, arg := range []string{"version", "--version"} {
		trace := m.ok(arg).Stderr
		found := started.FindAllStringSubmatch(trace, -1)
		if len(found) < 3 {
			t.Fatalf("no trace: %q", trace)
		}
		for _, f := range found {
			for _, late := range []string{"charmbracelet/bubbletea", "santhosh-tekuri", "danielgtaylor/huma/v2$", "spf13/cobra", "evanw/esbuild/internal/js", "net/http$"} {
				if regexp.MustCompile(late).MatchString(f[1]) {
					t.Errorf("pml %s waits for %s", arg, f[1])
				}
			}
		}
	}
}
