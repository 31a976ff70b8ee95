//go:build linux

package upstream_test

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A server that ignores the end of its input and TERM does not outlive a pml
// that was killed.
func TestManager_KilledHostTakesItsServersAlong(t *testing.T) {
	t.Parallel()
	p, _ := newPhone(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	host := exec.Command(self)
	host.Env = append(os.Environ(), "PML_TEST_SERVER=host", p.env())
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	byMode := map[string]*bufio.Reader{}
	for range 2 {
		r := <-p.calls
		mode, _, _ := strings.Cut(line(t, r), " ")
		byMode[mode] = r
	}
	if got := line(t, byMode["host"]); got != "called <nil>" {
		t.Fatal(got)
	}
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = host.Wait()
	gone(t, byMode["deaf"])
}
