//go:build unix

package execute_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core/skiptest"
)

// A rule with a condition holds on whichever way a call comes, for the arguments that
// are sent: those that a flow has left, too.
func TestConditions_EveryPath(t *testing.T) {
	t.Parallel()
	deny := func(where string) map[string]any {
		return map[string]any{"allow": []string{"rec:*"}, "deny": []any{map[string]any{"tool": "rec:inc", "where": where}}}
	}
	cases := map[string]struct {
		permissions map[string]any
		flow        string // the script of a hook in front of the call
		exit        int
		calls       string
		says        string
	}{
		"Allows":     {map[string]any{"allow": []any{map[string]any{"tool": "rec:inc", "where": `args.key == "k"`}}}, "", 0, `inc {"key":"k"}`, ""},
		"AllowsNot":  {map[string]any{"allow": []any{map[string]any{"tool": "rec:inc", "where": `args.key == "x"`}}}, "", 8, "", "approval_required"},
		"AllowFails": {map[string]any{"allow": []any{map[string]any{"tool": "rec:inc", "where": `args.nothing == "x"`}}}, "", 8, "", "could not be evaluated"},
		"Denies":     {deny(`args.key == "k"`), "", 9, "", "permission_denied"},
		"DenyFails":  {deny(`args.nothing == "x"`), "", 9, "", "cannot be evaluated"},
		"DeniesNot":  {deny(`args.key == "x"`), "", 0, `inc {"key":"k"}`, ""},
		"DeniesSent": {deny(`args.key == "x"`), `const p = context.request.params; return {params: {...p, arguments: {key: "x"}}}`, 9, "", "permission_denied"},
		"AllowsSent": {map[string]any{"allow": []any{map[string]any{"tool": "rec:inc", "where": `args.key == "x"`}}}, `const p = context.request.params; return {params: {...p, arguments: {key: "x"}}}`, 0, `inc {"key":"x"}`, ""},
	}
	for i, name := range slices.Sorted(maps.Keys(cases)) {
		for j, path := range slices.Sorted(maps.Keys(paths)) {
			c, args := cases[name], paths[path]
			t.Run(name+"/"+path, func(t *testing.T) {
				skiptest.Share(t, i+j, len(paths))
				t.Parallel()
				m := pmltest.BareMachine(t)
				if c.flow != "" {
					m.Write(".pml/flows/f.json", string(pmltest.Flow("f", nil, c.flow, "")))
				}
				config := pmltest.AllowRec()
				config.Permissions = c.permissions
				m.Configure(config)
				o := m.PML(append(args(m), "--json")...)
				if o.Exit != c.exit && (c.exit != 9 || o.Exit != 1) { // a DAG has failed with its task
					t.Errorf("exit %d: %s%s", o.Exit, o.Stdout, o.Stderr)
				}
				if !strings.Contains(o.Stdout+o.Stderr, c.says) {
					t.Errorf("it does not say %q: %s%s", c.says, o.Stdout, o.Stderr)
				}
				if got := strings.Join(m.Calls(), ", "); got != c.calls {
					t.Errorf("calls %q, want %q", got, c.calls)
				}
			})
		}
	}
}

// A trusted flow that is deleted, or switched off, stops what it checked until a person
// has trusted that.
func TestFlows_TakenOut(t *testing.T) {
	t.Parallel()
	block := string(pmltest.Flow("f", map[string]any{"tool": "inc"}, `return {block: {code: "no", message: "never"}}`, ""))
	attacks := map[string]func(m *pmltest.Machine){
		"Deleted": func(m *pmltest.Machine) { _ = os.RemoveAll(filepath.Join(m.WS, ".pml")) },
		"Disabled": func(m *pmltest.Machine) {
			m.Write(".pml/flows/f.json", strings.Replace(block, `"enabled":true`, `"enabled":false`, 1))
		},
	}
	for i, name := range slices.Sorted(maps.Keys(attacks)) {
		for j, path := range slices.Sorted(maps.Keys(paths)) {
			attack, args := attacks[name], paths[path]
			t.Run(name+"/"+path, func(t *testing.T) {
				skiptest.Share(t, i+j, 2)
				t.Parallel()
				m := flowed(t, []byte(block))
				if o := m.PML(append(args(m), "--json")...); !strings.Contains(o.Stdout+o.Stderr, "never") {
					t.Fatalf("the flow does not run: %s%s", o.Stdout, o.Stderr)
				}
				attack(m)
				if o := m.PML(append(args(m), "--json")...); o.Exit == 0 || !strings.Contains(o.Stdout+o.Stderr, "not_trusted") || m.Count("inc") != 0 {
					t.Errorf("exit %d: %s%s", o.Exit, o.Stdout, o.Stderr)
				}
				m.OK("trust", "--yes")
				m.OK(append(args(m), "--json")...)
			})
		}
	}
}
