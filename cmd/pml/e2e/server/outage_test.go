//go:build unix

package server_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/skiptest"
)

var outage = flag.Duration("outage", 8*time.Second, "how long the tests stop PostgreSQL")

// cluster is a PostgreSQL of the test's own, on a socket of its own.
type cluster struct {
	t   testing.TB
	bin string
	dir string
	as  *syscall.Credential // it does not run as root
}

func newCluster(t testing.TB) *cluster {
	t.Helper()
	c := &cluster{t: t, bin: postgresBin(t)}
	dir, err := os.MkdirTemp("", "pml-pg-*") // short enough for a socket, and not below a folder of root's
	if err != nil {
		t.Fatal(err)
	}
	c.dir = dir
	t.Cleanup(func() {
		if _, err := os.Stat(filepath.Join(dir, "data", "postmaster.pid")); err == nil {
			c.stop("immediate")
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if os.Getuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			skiptest.Missing(t, "root cannot run a PostgreSQL: "+err.Error())
		}
		uid, _ := strconv.ParseUint(u.Uid, 10, 32)
		gid, _ := strconv.ParseUint(u.Gid, 10, 32)
		c.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(dir, int(uid), int(gid)); err != nil {
			t.Fatal(err)
		}
	}
	c.run("initdb", "--pgdata", filepath.Join(dir, "data"), "--auth", "trust", "--username", "postgres", "--no-sync", "--no-locale", "--encoding", "UTF8")
	c.start()
	return c
}

// postgresBin is the folder with initdb and pg_ctl.
func postgresBin(t testing.TB) string {
	t.Helper()
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path)
	}
	for _, glob := range []string{"/usr/lib/postgresql/*/bin/initdb", "/usr/local/opt/postgresql*/bin/initdb", "/opt/homebrew/opt/postgresql*/bin/initdb", "/usr/pgsql-*/bin/initdb"} {
		if found, _ := filepath.Glob(glob); len(found) > 0 {
			return filepath.Dir(found[len(found)-1])
		}
	}
	skiptest.Missing(t, "needs initdb of PostgreSQL")
	return ""
}

func (c *cluster) run(name string, args ...string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*pmltest.Patience)
	defer cancel()
	// What pg_ctl starts keeps its output: a file, as nobody waits for a file.
	log, err := os.CreateTemp("", "pml-pg-*.log")
	if err != nil {
		c.t.Fatal(err)
	}
	defer os.Remove(log.Name())
	defer log.Close()
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, name), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.dir, log, log
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.as}
	if err := cmd.Run(); err != nil {
		text, _ := os.ReadFile(log.Name())
		server, _ := os.ReadFile(filepath.Join(c.dir, "log"))
		c.t.Fatalf("%s: %v\n%s\n%s", name, err, text, server)
	}
}

// start starts it. A crash of the machine is not what is tested: no fsync.
func (c *cluster) start() {
	c.t.Helper()
	c.run("pg_ctl", "start", "--wait", "--timeout=100", "--pgdata", filepath.Join(c.dir, "data"), "--log", filepath.Join(c.dir, "log"),
		"--options", "-c listen_addresses='' -c fsync=off -c unix_socket_directories="+c.dir)
}

func (c *cluster) stop(mode string) {
	c.t.Helper()
	c.run("pg_ctl", "stop", "--wait", "--timeout=100", "--pgdata", filepath.Join(c.dir, "data"), "--mode", mode)
}

// url is the address of its database.
func (c *cluster) url() string { return "postgres://postgres@/postgres?host=" + c.dir }

// TestOutage: the database of two servers stops and comes back. Runs pause and go
// on where they were, what was asked can be decided, no event is lost and nothing
// runs twice; meanwhile requests are told what is wrong.
func TestOutage(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "starts, stops and starts PostgreSQL while runs go on")
	for _, mode := range []string{"immediate", "fast"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			testOutage(t, mode)
		})
	}
}

func testOutage(t *testing.T, mode string) {
	const runs, steps = 12, 30
	c := newCluster(t)
	m := pmltest.NewMachine(t, allowMany())
	b := besideOf(m, "home-b").Node("--store", c.url())
	a := m.Node("--store", c.url())
	seen := []*pmltest.Follower{a.Follow(), b.Follow()}
	asks := a.Begin(api.ExecuteRequest{Code: `await mcp.rec.danger({x: "asked"}); return "decided"`})
	ids := make([]core.ID, runs)
	for i := range ids {
		on, req := a, api.ExecuteRequest{}
		if i%2 == 1 {
			on = b
		}
		if i%3 == 0 {
			for k := range steps {
				spec := taskOf(fmt.Sprintf("s%d", k), "rec:inc", fmt.Sprintf(`{"key":"%d-%d"}`, i, k))
				pause := taskOf(fmt.Sprintf("p%d", k), "rec:slow", `{"ms":50}`, spec.ID)
				if k > 0 {
					spec.DependsOn = []string{fmt.Sprintf("p%d", k-1)}
				}
				req.Tasks = append(req.Tasks, spec, pause)
			}
		} else {
			req.Code = fmt.Sprintf(`for (let k = 0; k < %d; k++) { await mcp.rec.inc({key: "%d-" + k}); await mcp.rec.slow({ms: 50}) } return %d`, steps, i, i)
		}
		ids[i] = on.Begin(req)
	}
	within(t, pmltest.LongPatience, "they are in the middle", func() bool { return m.Count("inc") > runs*steps/6 })
	began := time.Now()
	c.stop(mode)
	stopped := time.Now()
	asked, cancel := context.WithTimeout(t.Context(), pmltest.Patience)
	defer cancel()
	if _, err := a.Client.Workflows(asked, nil, 1, ""); err == nil || asked.Err() != nil {
		t.Errorf("a list without a database: %v", err)
	} else {
		t.Logf("a list without a database, after %s: %v", time.Since(stopped), err)
	}
	late := time.NewTimer(time.Until(began.Add(*outage)))
	select {
	case <-late.C:
	case <-a.Ended():
		t.Fatalf("the server ended: %+v", a.Process.Wait())
	}
	held := m.Count("inc")
	c.start()
	up := time.Now()
	within(t, pmltest.LongPatience, "runs go on", func() bool { return m.Count("inc") > held })
	t.Logf("the database was away for %s; a run went on %s after it was back", up.Sub(began), time.Since(up))
	var r api.Result
	within(t, pmltest.LongPatience, "what was asked can be decided", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), pmltest.Patience)
		defer cancel()
		var err error
		r, err = b.Client.Continue(ctx, api.ContinueRequest{ID: asks, Wait: -1, Decision: &api.Decision{Approve: true}})
		if err != nil {
			t.Log(err)
		}
		return err == nil
	})
	if r.Status != api.StatusComplete || string(r.Result) != `"decided"` {
		t.Errorf("decided: %+v", r)
	}
	in := &answers{n: b, asked: map[string]core.InDoubtAnswer{}}
	within(t, pmltest.LongPatience, "all come to their end", func() bool {
		in.give(t.Context())
		_, one := seen[0].Seen()
		_, two := seen[1].Seen()
		return one == runs+1 && two == runs+1
	})
	t.Logf("all had ended %s after it was back; asked about %d calls", time.Since(up), len(in.asked))
	if len(in.asked) > 0 {
		t.Errorf("asked about calls in doubt, though no server has died: %v", in.asked)
	}
	for call, n := range countStarts(m) {
		if n != 1 && strings.HasPrefix(call, "inc ") {
			t.Errorf("%s ran %d times", call, n)
		}
	}
	if got := m.Count("inc"); got != runs*steps {
		t.Errorf("%d calls, want %d", got, runs*steps)
	}
	for i, id := range ids {
		if w, err := a.Client.Workflow(t.Context(), id); err != nil || w.State != core.RunComplete {
			t.Errorf("run %d: %s %v %v", i, w.State, w.Error, err)
		}
	}
}
