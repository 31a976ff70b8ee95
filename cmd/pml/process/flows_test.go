package process

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/flow"
	"github.com/casys-ai/pml/tui/state"
)

// newTerminalFlows are the flows of an empty workspace and an empty home.
func newTerminalFlows(t *testing.T) terminalFlows {
	t.Helper()
	dir := t.TempDir()
	home, ws := env.Home{Dir: filepath.Join(dir, "home")}, filepath.Join(dir, "ws")
	if err := os.MkdirAll(ws, 0o700); err != nil {
		t.Fatal(err)
	}
	workspace := env.Workspace{Dir: ws}
	return terminalFlows{home: home, workspace: workspace, load: func() (*env.Config, error) {
		return env.Load(env.LoadOptions{Workspace: workspace, Home: home, Environ: func(string) (string, bool) { return "", false }})
	}}
}

// TestTerminalFlows: what the terminal writes is whole, is what was read, and is enabled
// only without faults.
func TestTerminalFlows(t *testing.T) {
	t.Parallel()
	f, ctx := newTerminalFlows(t), context.Background()
	text := flow.Templates()[0].Flow("ask", "Ask", systemClock{}.Now())
	for _, file := range []state.FlowFile{{Name: "ask.json"}, {Name: "ask.json", Home: true}} {
		if err := f.SaveFlow(ctx, file, text, nil); err != nil {
			t.Fatal(err)
		}
		if err := f.SaveFlow(ctx, file, []byte(`{"enabled": false}`), nil); core.CodeOf(err) != core.CodeInvalidArguments {
			t.Errorf("a file that is there was overwritten: %v", err)
		}
		if err := f.SaveFlow(ctx, file, []byte("{"), text); err == nil {
			t.Error("half a file was written")
		}
		if err := f.EnableFlow(ctx, file, true); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(f.workspace.Dir, ".pml", "flows", "ask.json")
		if file.Home {
			name = filepath.Join(f.home.Dir, "flows", "ask.json")
		}
		now, err := os.ReadFile(name)
		if want := strings.Replace(string(text), `"enabled": false`, `"enabled": true`, 1); err != nil || string(now) != want {
			t.Errorf("%v:\n%s", err, now)
		}
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v %v", info.Mode(), err)
		}
		broken := []byte(`{"id": "x", "enabled": false, "nodes": []}`)
		if err := f.SaveFlow(ctx, file, broken, now); err != nil {
			t.Fatal(err)
		}
		if err := f.EnableFlow(ctx, file, true); core.CodeOf(err) != core.CodeInvalidConfig || len(core.AsError(err).Faults) == 0 {
			t.Errorf("enabled with faults: %v", err)
		}
		if err := f.EnableFlow(ctx, file, false); err != nil {
			t.Error(err)
		}
	}
	if err := f.EnableFlow(ctx, state.FlowFile{Name: "none.json"}, true); err == nil {
		t.Error("a flow that is not there was enabled")
	}
}

// TestTerminalFlows_Outside: a file that is a link out of the folder is not written.
func TestTerminalFlows_Outside(t *testing.T) {
	t.Parallel()
	f := newTerminalFlows(t)
	dir, victim := filepath.Join(f.workspace.Dir, ".pml", "flows"), filepath.Join(t.TempDir(), "victim.json")
	for _, err := range []error{os.MkdirAll(dir, 0o700), os.WriteFile(victim, []byte("{}"), 0o600), os.Symlink(victim, filepath.Join(dir, "f.json"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := f.SaveFlow(context.Background(), state.FlowFile{Name: "f.json"}, []byte(`{"a": 1}`), []byte("{}")); err == nil {
		t.Error("it was written through the link")
	}
	if got, _ := os.ReadFile(victim); string(got) != "{}" {
		t.Errorf("%s", got)
	}
	for _, name := range []string{"../x.json", "/etc/x.json", `..\x.json`} {
		if err := f.SaveFlow(context.Background(), state.FlowFile{Name: name}, []byte("{}"), nil); err == nil {
			t.Errorf("%s was written", name)
		}
	}
}

// TestKeptRuns: only the newest runs are read where the others are known, and all of them
// where one of those has not ended.
func TestKeptRuns(t *testing.T) {
	t.Parallel()
	var all []core.FlowRun // newest first
	add := func(n int, state core.FlowState) {
		for range n {
			all = append([]core.FlowRun{{ID: core.ID(strconv.Itoa(len(all))), State: state}}, all...)
		}
	}
	k, reads := keptRuns{runs: map[core.FlowKey][]core.FlowRun{}}, 0
	check := func(what string, want int) {
		t.Helper()
		reads = 0
		got, err := k.of(core.FlowKey{Flow: "f"}, func(limit int) ([]core.FlowRun, error) {
			reads++
			if limit == 0 || limit > len(all) {
				limit = len(all)
			}
			return slices.Clone(all[:limit]), nil
		})
		if err != nil || reads != want || !reflect.DeepEqual(got, all) {
			t.Errorf("%s: %d reads, %d of %d runs, %v", what, reads, len(got), len(all), err)
		}
	}
	check("none", 1)
	add(20, core.FlowOK)
	check("few", 1)
	add(60, core.FlowOK)
	check("more than were known", 2)
	add(3, core.FlowOK)
	check("some new", 1)
	all[0].State = core.FlowBlocked
	check("one has ended", 1)
	add(1, core.FlowPending)
	add(60, core.FlowOK)
	check("many new", 2)
	all[60].State = core.FlowOK
	check("an old one was pending", 2)
	check("and is not any more", 1)
}
