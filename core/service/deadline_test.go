package service_test

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// slow is a client of a workspace with a server that never answers, and one
// that comes after it and does. asked gets a connection when the first is asked.
func slow(t *testing.T) (c *client, asked net.Listener) {
	t.Helper()
	asked, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = asked.Close() })
	m := newMachine(t)
	c = m.client()
	allow := map[string]any{"permissions": map[string]any{"allow": []string{"a-silent", "mirror"}}}
	m.configure(c, allow, map[string]any{"a-silent": mirror("silent", asked.Addr().String()), "mirror": mirror()})
	return c, asked
}

// inTime tries with more and more time until it is enough: a busy machine needs more.
func inTime(t *testing.T, try func(limit time.Duration) bool) {
	t.Helper()
	for limit := 2 * time.Second; !try(limit); limit *= 2 {
		if limit > 15*time.Second {
			t.Fatalf("not even with %s", limit)
		}
	}
}

// What a caller waits for ends with one deadline: looking ahead and waiting for
// the run share it.
func TestExecute_OneDeadline(t *testing.T) {
	t.Parallel()
	c, _ := slow(t)
	inTime(t, func(wait time.Duration) bool {
		start := time.Now()
		r, err := c.Execute(c.ctx(), api.ExecuteRequest{Tasks: []core.TaskSpec{{ID: "t", Tool: "a-silent:look"}}, By: me, Wait: wait})
		took := time.Since(start)
		if err != nil || r.Status != api.StatusRunning || took < wait {
			t.Fatalf("%v %+v after %s", err, r, took)
		}
		return took <= wait*19/10
	})
}

// A server that does not answer in time keeps no other from being asked, and is
// not reported as one that fails.
func TestTools_Deadline(t *testing.T) {
	t.Parallel()
	c, _ := slow(t)
	inTime(t, func(limit time.Duration) bool {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		tools, problems, err := c.Tools(ctx)
		code(t, err, core.CodeCancelled)
		if slices.ContainsFunc(problems, func(f core.Fault) bool { return f.Path == "a-silent" }) {
			t.Errorf("a finding about a server that was not waited for: %v", problems)
		}
		return slices.ContainsFunc(tools, func(t core.Tool) bool { return t.Server == "mirror" })
	})
}

// A command that was told to stop says so, and makes no findings of it.
func TestDeadline_IsNoFinding(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(context.Context, *client) error{
		"Plan": func(ctx context.Context, c *client) error {
			_, err := c.Plan(ctx, api.ExecuteRequest{By: me, Tasks: []core.TaskSpec{{ID: "t", Tool: "a-silent:look"}}})
			return err
		},
		"Doctor":       func(ctx context.Context, c *client) error { _, err := c.Doctor(ctx); return err },
		"CheckServers": func(ctx context.Context, c *client) error { _, err := c.CheckServers(ctx); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, asked := slow(t)
			ctx, cancel := context.WithTimeout(t.Context(), hung)
			defer cancel()
			go func() {
				if conn, err := asked.Accept(); err == nil {
					_ = conn.Close()
					cancel()
				}
			}()
			if e := code(t, do(ctx, c), core.CodeCancelled); !strings.Contains(e.Message, "stopped before") {
				t.Error(e)
			}
		})
	}
}
