//go:build unix

package server_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/skiptest"
)

// TestServerScenario26_ManyAtOnce: twenty commands at the same moment on a fresh
// machine whose runs are kept in PostgreSQL start one server and get twenty
// results.
//
// Scenario 26.
func TestServerScenario26_ManyAtOnce(t *testing.T) {
	t.Parallel()
	m := pmltest.BareMachine(t)
	keepShared(m)
	m.Configure(pmltest.AllowRec())
	m.StopAtEnd()
	// A DAG: twenty scripts at once may take longer than one script may.
	file := m.DAG("dag.json", pmltest.Task("e", "rec:echo", `{"value":42}`, nil))
	var wg sync.WaitGroup
	for range 20 {
		p := m.Start("execute", file, "--detach", "--wait", "150s")
		wg.Go(func() {
			if out := p.Wait(); out.Exit != 0 || !strings.Contains(out.Stdout, "42") {
				t.Errorf("exit %d, %q: %s", out.Exit, out.Stdout, out.Stderr)
			}
		})
	}
	wg.Wait()
	if n, calls := serversStarted(m), m.Count("echo"); n != 1 || calls != 20 {
		t.Errorf("%d servers were started, %d calls", n, calls)
	}
	if s := m.Status(0); !s.Server.Background || s.Server.Store != "postgres" {
		t.Errorf("status %+v", s)
	}
}

// TestServerScenario27_DiskFull: the disk gets full while the server runs
// something. Whoever asks is told so, reading still works, and with space again
// the run goes on: nothing is lost, nothing runs twice. A server that is stopped
// meanwhile leaves the same to the next one.
//
// Scenario 27.
func TestServerScenario27_DiskFull(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "fills a disk and waits until pml sees it")
	for _, stopped := range []bool{false, true} {
		t.Run(fmt.Sprintf("stopped=%t", stopped), func(t *testing.T) {
			t.Parallel()
			m := pmltest.BareMachine(t)
			m.OnDisk("4m")
			m.Configure(pmltest.AllowRec())
			gate, filler := filepath.Join(m.Dir, "go"), filepath.Join(m.Dir, "disk", "filler")
			server := m.Serving()
			web := m.Caller("")
			id := web.Post("/workflows", api.ExecuteBody{Code: `
				await mcp.rec.inc({key: "a"});
				await mcp.rec.wait({file: "` + gate + `"});
				await mcp.rec.inc({key: "b"});
				return (await mcp.rec.inc({key: "c"})).count`}).Want(http.StatusAccepted).Result().WorkflowID
			pmltest.WaitFor(t, "the script waits", func() bool { return m.Count("wait") == 1 })
			pmltest.FillDisk(t, filler)
			pmltest.Touch(t, gate)
			for range 2 {
				p := web.Post("/workflows", api.ExecuteBody{Code: "return 1"}).Problem(http.StatusServiceUnavailable, core.CodeStoreFailed)
				pmltest.Wants(t, p.Detail, "disk is full", "free some space")
				f := m.Exit(1, "execute", "--detach", "--code", "return 1", "--json").Fault()
				pmltest.Wants(t, f.Message, "disk is full", "free some space")
			}
			pmltest.WaitFor(t, "the server notices", func() bool { return strings.Contains(server.Err.String(), "the store fails") })
			if w := web.Workflow(id); w.State != core.RunRunning || pmltest.TasksOf(w)["c1"].State != core.TaskSuccess {
				t.Errorf("while nothing can be written: %s, %+v", w.State, w.Layers)
			}
			if stopped {
				server.Signal(syscall.SIGTERM)
				if o := server.Wait(); o.Exit > 1 {
					t.Errorf("it did not stop by itself: exit %d\n%s", o.Exit, o.Stderr)
				}
			}
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
			if stopped {
				m.Serving()
			}
			pmltest.WaitFor(t, "the run ends", func() bool { return web.Workflow(id).State.Final() })
			if o := m.OK("workflows", "result", string(id)); o.Stdout != "1\n" {
				t.Errorf("result %q", o.Stdout)
			}
			if got := m.IncKeys(); got != "a b c" {
				t.Errorf("calls %q", got)
			}
			m.OK("execute", "--detach", "--wait", "150s", "--code", "return 1")
		})
	}
}

// TestServerScenario27_ReadOnlyHome: where the home cannot be written no server
// starts, and the message says why.
//
// Scenario 27.
func TestServerScenario27_ReadOnlyHome(t *testing.T) {
	t.Parallel()
	m := pmltest.BareMachine(t)
	m.OnDisk("4m")
	m.Configure(pmltest.AllowRec())
	p := m.Serving()
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(0)
	if out, err := exec.Command("mount", "-o", "remount,ro", filepath.Dir(m.Home)).CombinedOutput(); err != nil {
		skiptest.Missing(t, fmt.Sprintf("cannot remount: %v %s", err, out))
	}
	for _, args := range [][]string{{"serve"}, {"execute", "--detach", "--code", "return 1"}} {
		pmltest.Wants(t, m.Exit(1, args...).Stderr, "error: ", "read-only file system", "make the folder writable", "next: ")
	}
}

// TestServerScenario27_Database: a server.db that was cut off, overwritten or
// emptied, or that a newer pml wrote: an error that says what to do, and the
// file stays as it is.
//
// Scenario 27.
func TestServerScenario27_Database(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, db string)
		text   string
		code   core.Code
	}{
		{"Truncated", func(t *testing.T, db string) { pmltest.Truncate(t, db, 20_000) }, "cut off", core.CodeStoreFailed},
		{"Stump", func(t *testing.T, db string) { pmltest.Truncate(t, db, 10) }, "damaged", core.CodeStoreFailed},
		{"Emptied", func(t *testing.T, db string) { pmltest.Truncate(t, db, 0) }, "damaged", core.CodeStoreFailed},
		{"Overwritten", func(t *testing.T, db string) { pmltest.Overwrite(t, db, bytes.Repeat([]byte("x"), 65536)) }, "damaged", core.CodeStoreFailed},
		{"Newer", pmltest.NewerFormat, "newer", core.CodeStoreNewer},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := pmltest.NewMachine(t, pmltest.AllowRec())
			m.StopAtEnd()
			p := m.Serving()
			m.OK("execute", "--detach", "--wait", "150s", "--code", "return 1")
			p.Signal(syscall.SIGTERM)
			p.Wait().Want(0)
			db := filepath.Join(m.Home, "server.db")
			c.damage(t, db)
			before := pmltest.ReadBytes(t, db)
			for _, args := range [][]string{{"serve"}, {"execute", "--detach", "--code", "return 1"}} {
				pmltest.Wants(t, m.Exit(1, args...).Stderr, "error: ", c.text, "server.db", "next: pml")
				if f := m.Exit(1, append(args, "--json")...).Fault(); f.Code != c.code {
					t.Errorf("%v: code %s", args, f.Code)
				}
			}
			if !bytes.Equal(before, pmltest.ReadBytes(t, db)) {
				t.Error("the file was changed")
			}
			// Moved away, as the message says, pml starts anew.
			if err := os.Rename(db, db+".bad"); err != nil {
				t.Fatal(err)
			}
			m.OK("execute", "--detach", "--wait", "150s", "--code", "return 1")
		})
	}
}

// TestServerScenario27_Postgres: a database that is not there, refuses the
// server or was migrated by a newer pml: an error that says so, without the
// password, and the database stays as it is.
//
// Scenario 27.
func TestServerScenario27_Postgres(t *testing.T) {
	t.Parallel()
	url := database(t)
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	p := m.Serving("--store", url)
	m.OK("execute", "--detach", "--wait", "150s", "--code", "return 1")
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(0)

	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "postgres://pml:hunter2@" + ln.Addr().String() + "/pml"
	ln.Close()
	for _, at := range []string{nobody, url + "_none", "postgres://%zz"} {
		o := m.Start("serve", "--store", at, "--json").Wait()
		if f := o.Fault(); o.Exit == 0 || !strings.Contains(f.Message, "PostgreSQL") {
			t.Errorf("%s: exit %d, %+v", at, o.Exit, f)
		}
		if strings.Contains(o.Stdout+o.Stderr, "hunter2") {
			t.Errorf("the password is shown: %s", o.Stderr)
		}
	}

	ctx, cancel := context.WithTimeout(t.Context(), pmltest.Patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "INSERT INTO pml_migrations (version_id, is_applied) VALUES (99999, true)"); err != nil {
		t.Fatal(err)
	}
	f := m.Exit(1, "serve", "--store", url, "--json").Fault()
	if f.Code != core.CodeStoreNewer {
		t.Errorf("a database of a newer pml: %+v", f)
	}
	var runs int
	if err := conn.QueryRow(ctx, "SELECT count(*) FROM workflows").Scan(&runs); err != nil || runs != 1 {
		t.Errorf("%d runs: %v", runs, err)
	}
}
