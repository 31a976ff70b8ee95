package service_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// slow is a client of a workspace with a server that never answers, and one
// that comes after it and does.
func slow(t *testing.T) *client {
	t.Helper()
	m := newMachine(t)
	c := m.client()
	allow := map[string]any{"permissions": map[string]any{"allow": []string{"a-silent", "mirror"}}}
	m.configure(c, allow, map[string]any{"a-silent": mirror("silent"), "mirror": mirror()})
	return c
}

// What a caller waits for ends with one deadline: looking ahead and waiting for
// the run share it.
func TestExecute_OneDeadline(t *testing.T) {
	t.Parallel()
	c := slow(t)
	const wait = 20 * time.Second
	start := time.Now()
	r, err := c.Execute(c.ctx(), api.ExecuteRequest{Tasks: []core.TaskSpec{{ID: "t", Tool: "a-silent:look"}}, By: me, Wait: wait})
	if took := time.Since(start); err != nil || r.Status != api.StatusRunning || took < wait || took > wait*19/10 {
		t.Errorf("%v %+v after %s", err, r, took)
	}
}

// A server that does not answer in time keeps no other from being asked, and is
// not reported as one that fails.
func TestTools_Deadline(t *testing.T) {
	t.Parallel()
	c := slow(t)
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	tools, problems, err := c.Tools(ctx)
	code(t, err, core.CodeCancelled)
	if !slices.ContainsFunc(tools, func(t core.Tool) bool { return t.Server == "mirror" }) {
		t.Errorf("a server that answers was not asked beside one that does not: %v", tools)
	}
	if slices.ContainsFunc(problems, func(f core.Fault) bool { return f.Path == "a-silent" }) {
		t.Errorf("a finding about a server that was not waited for: %v", problems)
	}
}

// A command that was told to stop says so, and makes no findings of it.
func TestDeadline_IsNoFinding(t *testing.T) {
	t.Parallel()
	c := slow(t)
	for name, do := range map[string]func(context.Context) error{
		"Plan": func(ctx context.Context) error {
			_, err := c.Plan(ctx, api.ExecuteRequest{By: me, Tasks: []core.TaskSpec{{ID: "t", Tool: "a-silent:look"}}})
			return err
		},
		"Doctor":       func(ctx context.Context) error { _, err := c.Doctor(ctx); return err },
		"CheckServers": func(ctx context.Context) error { _, err := c.CheckServers(ctx); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		err := do(ctx)
		cancel()
		if e := code(t, err, core.CodeCancelled); !strings.Contains(e.Message, "stopped before") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
