// Package skiptest decides which tests are left out, and says why: those that -short leaves out, those that only
// PML_TEST_REQUIRE=all runs, and those that need what this machine lacks.
package skiptest

import (
	"os"
	"os/exec"
	"testing"
)

// All reports whether nothing may be left out: PML_TEST_REQUIRE=all.
func All() bool { return os.Getenv("PML_TEST_REQUIRE") == "all" }

// Short skips a test that takes too long for go test -short.
func Short(t testing.TB, reason string) {
	t.Helper()
	if testing.Short() && !All() {
		t.Skip(reason + "; it runs without -short")
	}
}

// Long skips a test that go test ./... leaves out: it installs from the network, or takes long.
func Long(t testing.TB, reason string) {
	t.Helper()
	if !All() {
		t.Skip(reason + "; PML_TEST_REQUIRE=all runs it")
	}
}

// Missing skips a test that needs what is not here, and fails it under PML_TEST_REQUIRE=all.
func Missing(t testing.TB, reason string) {
	t.Helper()
	if All() {
		t.Fatal(reason)
	}
	t.Skip(reason)
}

// Tool returns the path of a program that a test needs. Without the program the test is [Missing] it.
func Tool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(t, "needs "+name+" in PATH: "+err.Error())
	}
	return path
}

// Sized is how large a test is: many with PML_TEST_REQUIRE=all.
func Sized(few, many int) int {
	if All() {
		return many
	}
	return few
}

// Brief is how large a test is: short with -short, else usual.
func Brief(short, usual int) int {
	if testing.Short() && !All() {
		return short
	}
	return usual
}
