package upstream_test

import (
	"encoding/json"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/upstream"
)

// What the library does wrong on its own, by the number that it has in the list
// of its known defects, and what servers see of it through the Manager.

// Defect 4: a server gets the environment of pml.
func TestLibraryDefect4_NoEnvironmentLeaks(t *testing.T) {
	t.Parallel()
	if len(os.Environ()) < 2 {
		t.Fatal("the test has no environment that could leak")
	}
	l := launch(t, "good")
	for _, h := range []*host{newHost("a", ""), newHost("b", allCapabilities)} {
		got, err := call(t, newManager(t, nil), with(l, h), "env", `{}`)
		var env []string
		if err != nil || json.Unmarshal([]byte(got), &env) != nil || !cmp.Equal(env, l.Env) {
			t.Errorf("it sees %s, %v", got, err)
		}
	}
}

// Defect 5: what a server has started outlives it.
func TestLibraryDefect5_NoOrphans(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"parent", "stubborn"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			p, _ := newPhone(t)
			m := newManager(t, nil)
			l := with(launch(t, mode, p.env()), newHost("a", allCapabilities))
			if _, err := call(t, m, l, "pid", `{}`); err != nil {
				t.Fatal(err)
			}
			family := []string{mode, "sleeper"}
			for range family {
				r := <-p.calls
				who, _, _ := strings.Cut(line(t, r), " ")
				if family = slices.DeleteFunc(family, func(s string) bool { return s == who }); len(family) == 0 {
					m.Gone("a")
				}
				defer gone(t, r)
			}
			if len(family) > 0 {
				t.Errorf("%v did not call", family)
			}
		})
	}
}

// Defect 6: an old server is first asked something that it does not know, and
// waited for, or it ends. It is asked nothing before its handshake, and nothing
// but what old clients ask.
func TestLibraryDefect6_OldServersAreAskedNothingNew(t *testing.T) {
	t.Parallel()
	for name, capabilities := range map[string]string{"shared": "", "own": allCapabilities} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _ := newPhone(t)
			m := newManager(t, nil)
			if _, err := call(t, m, with(launch(t, "tells-all", p.env()), newHost("a", capabilities)), "pid", `{}`); err != nil {
				t.Fatal(err)
			}
			r := pick(t, p)
			got := []string{line(t, r), line(t, r), line(t, r)}
			slices.Sort(got[1:]) // it handles its messages at once
			if want := []string{"initialize", "notifications/initialized", "tools/call"}; !cmp.Equal(got, want) {
				t.Errorf("it is told %q", got)
			}
		})
	}
}

// Defect 14: a line of any length is held. Here it is read past, its caller is
// told, and the server goes on. It is not parallel: it measures memory.
func TestLibraryDefect14_LinesAreCapped(t *testing.T) {
	const most = 1 << 20
	m := newManager(t, func(o *upstream.Options) { o.Limits.ResultBytes = most })
	l := launch(t, "endless-line")
	if _, err := m.Capabilities(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := call(t, m, l, "x", `{}`)
	runtime.ReadMemStats(&after)
	wantCode(t, err, core.CodeResultTooLarge)
	if took := after.TotalAlloc - before.TotalAlloc; took > 16*most {
		t.Errorf("a line of 64 MiB took %d bytes", took)
	}
	h, _ := m.Health("endless-line", l.Workspace)
	if got, err := call(t, m, l, "x", `{}`); err != nil || h.PID == 0 || got != jsonNumber(h.PID) {
		t.Errorf("the next call: %s of process %d, %v", got, h.PID, err)
	}
}

func jsonNumber(n int) string {
	b, _ := json.Marshal(n)
	return string(b)
}
