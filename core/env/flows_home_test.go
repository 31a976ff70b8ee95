package env_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/flow"
)

// Flows of the home hold beside those of the workspace, trusted or not, and no file of
// the workspace leads them elsewhere.
func TestHookFlows(t *testing.T) {
	t.Parallel()
	ids := func(d *flow.Folder) string {
		var out []string
		for _, f := range d.Flows {
			out = append(out, f.ID)
			if f.Home != d.Home {
				t.Errorf("%s: home %v in a folder with %v", f.ID, f.Home, d.Home)
			}
		}
		return strings.Join(out, " ")
	}
	b := newBox(t)
	b.write(filepath.Join(b.home.Dir, "flows/mine.json"), `{"id": "mine", "nodes": []}`)
	b.write(filepath.Join(b.home.Dir, "flows/modules/m.json"), `{"id": "m", "script": "return"}`)
	b.write(filepath.Join(b.home.Dir, "elsewhere/other.json"), `{"id": "other"}`)
	b.write(".pml/flows/theirs.json", `{"id": "theirs"}`)
	b.write("their/own.json", `{"id": "own"}`)
	for _, c := range []struct{ name, homeConfig, config, home, workspace string }{
		{"Defaults", `{}`, `{}`, "mine", "theirs"},
		{"Named", `{"flows": "elsewhere"}`, `{"flows": "their"}`, "other", "own"},
		{"ByHomeOnly", `{"flows": "elsewhere"}`, `{}`, "other", "theirs"},
		{"None", `{"flows": "none"}`, `{"flows": "none"}`, "", ""},
	} {
		b.write(b.home.Config(), c.homeConfig)
		b.write(".pml.json", c.config)
		all := b.load()
		for _, counts := range []*env.Config{all, all.Effective(false), all.Effective(true)} {
			home, workspace := counts.HookFlows()
			equal(t, c.home, ids(home))
			equal(t, c.workspace, ids(workspace))
		}
		if strings.Contains(b.trust().Content, "mine") {
			t.Errorf("%s: a person is to trust a flow of the home:\n%s", c.name, b.trust().Content)
		}
	}
}

// Nobody trusts the flows of the home, so nobody else may write to them.
func TestHookFlows_HomeIsOurOwn(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("files have no permissions here")
	}
	for name, mode := range map[string]os.FileMode{"flows/a.json": 0o620, "flows": 0o777, "flows/modules": 0o720} {
		b := newBox(t)
		b.write(filepath.Join(b.home.Dir, "flows/a.json"), `{"id": "a"}`)
		b.write(filepath.Join(b.home.Dir, "flows/modules/m.json"), `{"id": "m"}`)
		b.load()
		if err := os.Chmod(filepath.Join(b.home.Dir, name), mode); err != nil {
			t.Fatal(err)
		}
		if lines := b.faults(); len(lines) != 1 || !strings.HasPrefix(lines[0], filepath.Base(name)) || !strings.Contains(lines[0], "chmod go-w") {
			t.Errorf("%s: %q", name, lines)
		}
	}
}
