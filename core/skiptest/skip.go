// Package skiptest decides which tests are left out, and says why: those that -short leaves out, those that only
// PML_TEST_REQUIRE=all runs, and those that need what this machine lacks. It also decides how many run at once.
//
// PML_TEST_LEFT_OUT names a file to which the folder and the name of each test are added that PML_TEST_REQUIRE=all would
// run otherwise: .ci/run runs these, and not once more those that have run as they are.
package skiptest

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// All reports whether nothing of a test may be left out: PML_TEST_REQUIRE=all.
func All(t testing.TB) bool {
	t.Helper()
	if required() {
		return true
	}
	leftOut(t)
	return false
}

func required() bool { return os.Getenv("PML_TEST_REQUIRE") == "all" }

// folder is that of the package whose tests run; a test may go to another one.
var folder, errFolder = os.Getwd()

// leftOut adds a test to the file that PML_TEST_LEFT_OUT names.
func leftOut(t testing.TB) {
	t.Helper()
	name := os.Getenv("PML_TEST_LEFT_OUT")
	if name == "" {
		return
	}
	top, _, _ := strings.Cut(t.Name(), "/")
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err == nil {
		_, err = f.WriteString(folder + " " + top + "\n")
		err = errors.Join(err, errFolder, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Short skips a test that takes too long for go test -short.
func Short(t testing.TB, reason string) {
	t.Helper()
	if testing.Short() && !required() {
		t.Skip(reason + "; it runs without -short")
	}
}

// Long skips a test that go test ./... leaves out: it installs from the network, or takes long.
func Long(t testing.TB, reason string) {
	t.Helper()
	if !All(t) {
		t.Skip(reason + "; PML_TEST_REQUIRE=all runs it")
	}
}

// Missing skips a test that needs what is not here, and fails it under PML_TEST_REQUIRE=all.
func Missing(t testing.TB, reason string) {
	t.Helper()
	if All(t) {
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
func Sized(t testing.TB, few, many int) int {
	t.Helper()
	if All(t) {
		return many
	}
	return few
}

// Share runs every nth subtest of a table and skips the others: PML_TEST_REQUIRE=all runs each. i is the subtest's
// place; of a table of kinds and ways it is the sum of both places, and n the number of ways, so that each kind runs
// once and each way as often as the others.
func Share(t testing.TB, i, n int) {
	t.Helper()
	if i%n != 0 && !All(t) {
		t.Skip("one of " + strconv.Itoa(n) + " like it runs; PML_TEST_REQUIRE=all runs it")
	}
}

// Brief is how large a test is: short with -short, else usual.
func Brief(short, usual int) int {
	if testing.Short() && !required() {
		return short
	}
	return usual
}

// NoRace skips a test that takes what there is of memory or time. Without the race detector .ci/run runs it.
func NoRace(t testing.TB) {
	t.Helper()
	if Race {
		t.Skip("takes many times longer with the race detector; it runs without -race")
	}
}

// Overlap lets more tests run at once than there are processors, unless the command line says how many. A TestMain
// calls it where tests mostly wait: for other processes, the disk, deadlines. With the race detector they wait less.
func Overlap() {
	each := 4
	if Race {
		each = 2
	}
	AtOnce(each * runtime.GOMAXPROCS(0))
}

// AtOnce lets this many tests run at once, unless the command line says how many.
func AtOnce(tests int) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		_ = flag.Set("test.parallel", strconv.Itoa(tests)) // a number is one
	}
}

// InMemory keeps the temporary folders of a package's tests in memory, where Linux has room for them: a commit waits
// milliseconds for a disk, and a program is written before it starts. A TestMain calls it. Kills do not care: what a
// dead process has written is with the kernel, and power cuts are simulated. Where TMPDIR is set and with
// PML_TEST_REQUIRE=all, they are where they would be.
func InMemory() {
	const dir = "/dev/shm"
	if os.Getenv("TMPDIR") == "" && !required() && roomy(dir) {
		_ = os.Setenv("TMPDIR", dir) // the name is a valid one
	}
}
