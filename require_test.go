package pml_test

import (
	"os"
	"os/exec"
	"testing"
)

// requireTool returns the path of a program that a test needs. Without it the
// test is skipped, or fails when PML_TEST_REQUIRE=all says that nothing may be
// skipped.
func requireTool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	missing(t, "needs "+name+" in PATH: "+err.Error())
	return ""
}

// missing skips a test for a reason, or fails it under PML_TEST_REQUIRE=all.
func missing(t *testing.T, reason string) {
	t.Helper()
	if os.Getenv("PML_TEST_REQUIRE") == "all" {
		t.Fatal(reason)
	}
	t.Skip(reason)
}
