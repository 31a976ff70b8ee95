//go:build linux

package postgres_test

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/postgres"
)

// machineOf sets who a peer is: as if this process ran on that machine.
func machineOf(t *testing.T, address, id, machine string, process int) {
	t.Helper()
	if _, err := connect(t, address).Exec(t.Context(),
		"UPDATE runners SET machine = $2, process = $3, address = inet_client_addr() WHERE id = $1", id, machine, process); err != nil {
		t.Fatal(err)
	}
}

// ended is the number of a process that has ended.
func ended(t *testing.T) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

// zombie is the number of a process that has ended and that nobody waits for before
// the end of the test.
func zombie(t *testing.T) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() })
	if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

// orphaned reports whether the run of a runner is an orphan for another.
func orphaned(t *testing.T, s *postgres.Store, self string) bool {
	t.Helper()
	ids, err := s.Orphans(t.Context(), self, 0)
	if err != nil {
		t.Fatal(err)
	}
	return len(ids) > 0
}

// A runner whose process has ended is dead for the next one of its machine at
// once, with all of its lease left, even while the database believes in its
// connection. With any doubt it has its time to come back.
func TestRunners_ProcessGone(t *testing.T) {
	t.Parallel()
	if postgres.Machine() == "" {
		t.Skip("this system does not say which it is")
	}
	address, dead := database(t), ended(t)
	unwaited := zombie(t)
	s := open(t, address, wall{})
	for _, c := range []struct {
		name    string
		machine string
		process int
		dead    bool
	}{
		{"ended", postgres.Machine(), dead, true},
		{"not waited for", postgres.Machine(), unwaited, true},
		{"lives", postgres.Machine(), os.Getpid(), false},
		{"of another machine", "another " + postgres.Machine(), dead, false},
		{"unknown machine", "", dead, false},
		{"unknown process", postgres.Machine(), 0, false},
	} {
		id := string(newID())
		peerOf(t, address, id)
		machineOf(t, address, id, c.machine, c.process)
		run := newRun(id)
		if err := s.Commit(t.Context(), store.Step{Run: run, Create: true}); err != nil {
			t.Fatal(err)
		}
		me, err := s.Register(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := orphaned(t, s, me.ID()); got != c.dead {
			t.Errorf("%s: its run is an orphan: %v", c.name, got)
		}
		if err := s.Remove(t.Context(), finish(t, s, run)); err != nil {
			t.Fatal(err)
		}
	}
}

// finish ends a run.
func finish(t *testing.T, s *postgres.Store, run core.Run) core.ID {
	t.Helper()
	run.State = core.RunComplete
	if err := s.Commit(t.Context(), store.Step{Run: run}); err != nil {
		t.Fatal(err)
	}
	return run.ID
}

// Who watches is told when a process ends that was seen to live.
func TestRunners_ProcessEnds(t *testing.T) {
	t.Parallel()
	if postgres.Machine() == "" {
		t.Skip("this system does not say which it is")
	}
	address := database(t)
	s := open(t, address, wall{})
	me, err := s.Register(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	id := string(newID())
	conn := peerOf(t, address, id)
	machineOf(t, address, id, postgres.Machine(), os.Getpid())
	if err := s.Commit(t.Context(), store.Step{Run: newRun(id), Create: true}); err != nil {
		t.Fatal(err)
	}
	wake, err := s.WatchOthers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	machineOf(t, address, id, postgres.Machine(), ended(t))
	_ = conn.Close(context.Background())
	for !orphaned(t, s, me.ID()) {
		select {
		case <-wake:
		case <-time.After(hung):
			t.Fatal("nobody was told")
		}
	}
	// Whoever only is missing keeps its row until somebody claims what it ran.
	waitFor(t, address, "SELECT NOT EXISTS (SELECT 1 FROM runners WHERE id = $1)", id)
}
