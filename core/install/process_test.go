package install_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/casys-ai/pml/core/install"
	"github.com/casys-ai/pml/core/install/registrytest"
	"github.com/casys-ai/pml/core/skiptest"
)

// child runs one installation in this process for the tests that need several
// processes. It says each step on a line of its own.
func child(t *testing.T) bool {
	t.Helper()
	raw := os.Getenv("INSTALL_TEST_CHILD")
	if raw == "" {
		return false
	}
	var c struct {
		Home string
		Env  []string
	}
	if err := json.Unmarshal([]byte(raw), &c); err != nil {
		t.Fatal(err)
	}
	say := func(s string) { fmt.Fprintln(os.Stdout, "\nstep "+s) }
	in := onRegistry(c.Home, c.Env, func(o *install.Options) { o.Progress = say })
	_, i := mustInstall(t, in, specOf(t, "npx -y @demo/server"))
	say("done " + i.Dir)
	return true
}

// process is a child process that installs.
func process(t *testing.T, home string, env []string) *exec.Cmd {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"Home": home, "Env": env})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestRegistry_TwoProcesses$")
	cmd.Env = append(os.Environ(), "INSTALL_TEST_CHILD="+string(raw))
	return cmd
}

// trees are the installed trees of the demo server.
func trees(t *testing.T, home string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(home, "@demo/server/*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestRegistry_TwoProcesses(t *testing.T) {
	if child(t) {
		return
	}
	t.Parallel()
	skiptest.Long(t, "has npm install packages; others do, too")
	reg := demoRegistry(t)
	home, env := t.TempDir(), reg.Env(os.Environ())
	var all sync.WaitGroup
	outs := make([]bytes.Buffer, 2)
	for n := range outs {
		cmd := process(t, home, env)
		cmd.Stdout, cmd.Stderr = &outs[n], &outs[n]
		all.Go(func() {
			if err := cmd.Run(); err != nil {
				t.Errorf("%v: %s", err, outs[n].String())
			}
		})
	}
	all.Wait()
	got := trees(t, home)
	if len(got) != 1 {
		t.Fatalf("trees %v", got)
	}
	for n := range outs {
		if !strings.Contains(outs[n].String(), "step done "+got[0]+"\n") {
			t.Errorf("process %d: %s", n, outs[n].String())
		}
	}
	in := onRegistry(home, env)
	_, i := mustInstall(t, in, specOf(t, "npx -y @demo/server"))
	if c, err := in.Verify(i); c != nil || err != nil {
		t.Error(c, err)
	}
}

// kill -9 of an installing process: nothing half-installed counts, and the next
// one succeeds.
func TestRegistry_Killed(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]string{
		"Resolving": "step asking the registry", "Installing": "step installing", "Checking": "step checking",
		"Document": "GET /@demo/server", "Archive": "GET .tgz",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name != "Installing" {
				skiptest.Long(t, again)
			}
			reg := demoRegistry(t)
			home, env := t.TempDir(), reg.Env(os.Environ())
			killAt(t, process(t, home, env), reg, after)
			later := onRegistry(home, env, func(o *install.Options) { o.Clock = fixedClock{clock.at.Add(time.Hour)} })
			for _, tree := range trees(t, home) {
				if _, err := os.Stat(filepath.Join(tree, "pml-receipt.json")); err != nil {
					t.Errorf("half a tree: %s", tree)
				}
			}
			spec := specOf(t, "npx -y @demo/server")
			_, i := mustInstall(t, later, spec)
			if c, err := later.Verify(i); c != nil || err != nil {
				t.Error(c, err)
			}
			if answer := converse(t, later, i, spec, `{"jsonrpc":"2.0","id":1,"method":"ping"}`); !strings.Contains(answer, `"result":{}`) {
				t.Error(answer)
			}
			if _, err := later.Collect(t.Context()); err != nil {
				t.Error(err)
			}
			if left, err := os.ReadDir(filepath.Join(home, ".staging")); err != nil || len(left) > 0 {
				t.Errorf("staging: %v %v", left, err)
			}
		})
	}
}

// killAt starts a process and kills it when it has said a line, or when the
// registry was asked. It returns when the npm that outlives it has ended too:
// what they all have open then is closed.
func killAt(t *testing.T, cmd *exec.Cmd, reg *registrytest.Registry, after string) {
	t.Helper()
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	alive, inherited, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	cmd.ExtraFiles = []*os.File{inherited}
	if err := errors.Join(cmd.Start(), inherited.Close()); err != nil {
		t.Fatal(err)
	}
	if path, ok := strings.CutPrefix(after, "GET "); ok {
		reg.Await(path, 1)
	} else {
		seen := &bytes.Buffer{}
		b := make([]byte, 4096)
		for !strings.Contains(seen.String(), after) {
			n, err := pipe.Read(b)
			seen.Write(b[:n])
			if err != nil {
				t.Fatalf("%v before %q: %s", err, after, seen)
			}
		}
	}
	if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if err := alive.SetReadDeadline(time.Now().Add(5 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(alive); err != nil {
		t.Fatal("npm goes on: ", err)
	}
}
