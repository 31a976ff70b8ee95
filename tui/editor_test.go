package tui

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/tui/screen"
)

// editWith has the editor run a script, with the file in $1 and what it saw kept
// in the files that are returned by the function: one for each time.
func (h *harness) editWith(script string) (seen func() []string) {
	h.t.Helper()
	dir := h.t.TempDir()
	for _, f := range []*os.File{nil} { // the terminal is not needed
		h.m.o.In, h.m.o.Out = f, f
	}
	file := filepath.Join(dir, "editor.sh")
	text := fmt.Sprintf("n=$(ls %[1]s/seen-* 2>/dev/null | wc -l)\ncp \"$2\" %[1]s/seen-$n\nstat -c '%%a' \"$2\" > %[1]s/mode\n[ \"$1\" = --arg ] || exit 9\nset -- \"$2\"\n%[2]s\n", dir, script)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
	h.vars["EDITOR"] = "false"
	h.vars["VISUAL"] = "sh '" + file + "' --arg"
	return func() []string {
		h.t.Helper()
		names, err := filepath.Glob(filepath.Join(dir, "seen-*"))
		if err != nil {
			h.t.Fatal(err)
		}
		var out []string
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				h.t.Fatal(err)
			}
			out = append(out, string(data))
		}
		return out
	}
}

// gone fails unless what was edited is removed with its folder.
func (h *harness) gone() {
	h.t.Helper()
	for _, file := range h.edits {
		if _, err := os.Stat(filepath.Dir(file)); !os.IsNotExist(err) {
			h.t.Errorf("%s is left", file)
		}
	}
}

func (h *harness) knows(r core.Run) { h.backend.runs = append(h.backend.runs, r) }

func TestModel_Replan(t *testing.T) {
	t.Parallel()
	const task = `{"tasks": [{"id": "notes", "tool": "gh:notes"}]}`
	t.Run("OK", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, nil)
		h.knows(h.run1(core.RunWaiting))
		seen := h.editWith(`printf '// mine\n` + task + `' > "$1"`)
		h.want(screen.Replan{Run: runA})
		if len(h.backend.replanned) != 1 || h.backend.replanned[0][0].ID != "notes" {
			t.Fatalf("added: %+v", h.backend.replanned)
		}
		h.shows("7f3a91c2: 1 task added; it runs when it goes on")
		h.gone()
		text := seen()[0]
		if !strings.Contains(text, `gh:draft\x1b[2J`) || !strings.Contains(text, "checkout-sync 7f3a91c2, in JSON") || !strings.Contains(text, "//   layer 1  ") || strings.Contains(text, "\x1b") {
			t.Errorf("the template:\n%s", text)
		}
		if diff := cmp.Diff([]core.ID{runA}, h.feed.touched); diff != "" {
			t.Error(diff)
		}
	})
	for name, script := range map[string]string{"AsItIs": ":", "Empty": `: > "$1"`, "OnlyComments": `printf '// a\n' > "$1"`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, nil)
			h.knows(h.run1(core.RunWaiting))
			h.editWith(script)
			h.want(screen.Replan{Run: runA})
			if len(h.backend.calls) != 0 || len(h.edits) != 1 {
				t.Errorf("calls %q, %d edits", h.backend.calls, len(h.edits))
			}
			h.shows("nothing was added to 7f3a91c2")
			h.gone()
		})
	}
	t.Run("ErrorsGoBack", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, nil)
		h.knows(h.run1(core.RunWaiting))
		refused := core.Errorf(core.CodeDAGInvalid, "no tool gh:notes\x1b[2J")
		refused.Faults = []core.Fault{{Path: "/tasks/0", Message: "did you mean gh:note?"}}
		h.backend.onReplan = func([]core.TaskSpec) (api.Result, error) { return api.Result{}, refused }
		// First no JSON, then a task that is refused, then nothing more.
		seen := h.editWith(`case $n in 0) echo '{"tasks": ]' > "$1";; 1) echo '` + task + `' > "$1";; esac`)
		h.want(screen.Replan{Run: runA})
		texts := seen()
		if len(texts) != 3 {
			t.Fatalf("edited %d times, want 3", len(texts))
		}
		if want := "// Nothing was added:\n//   no JSON: "; !strings.HasPrefix(texts[1], want) || !strings.HasSuffix(texts[1], "{\"tasks\": ]\n") {
			t.Errorf("after the first time:\n%s", texts[1])
		}
		if want := "// Nothing was added:\n//   no tool gh:notes\\x1b[2J\n//     /tasks/0: did you mean gh:note?\n"; !strings.HasPrefix(texts[2], want) || strings.Count(texts[2], "Nothing was added") != 1 {
			t.Errorf("after the second time:\n%s", texts[2])
		}
		h.shows("nothing was added to 7f3a91c2")
		h.gone()
	})
	t.Run("Input", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, nil)
		h.knows(h.run1(core.RunWaiting))
		h.editWith(`[ $n = 0 ] && echo '{"tasks": [{"id": "a", "tool": "b:c"}], "input": {}}' > "$1" || :`)
		h.want(screen.Replan{Run: runA})
		if len(h.backend.replanned) != 0 || len(h.edits) != 2 {
			t.Errorf("added %+v after %d edits", h.backend.replanned, len(h.edits))
		}
	})
	t.Run("EditorFails", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, nil)
		h.knows(h.run1(core.RunWaiting))
		h.editWith(`echo '` + task + `' > "$1"; exit 1`)
		h.want(screen.Replan{Run: runA})
		if len(h.backend.replanned) != 0 {
			t.Error("tasks were added although the editor failed")
		}
		h.shows("nothing was added to 7f3a91c2: the editor failed")
		h.gone()
	})
	t.Run("RefusedTooOften", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, nil)
		run := h.run1(core.RunWaiting)
		run.Intent = ""
		h.knows(run)
		h.backend.onReplan = func([]core.TaskSpec) (api.Result, error) {
			return api.Result{}, core.Errorf(core.CodeDAGInvalid, "no tool gh:notes")
		}
		seen := h.editWith(`echo '{"tasks": [{"id": "n'$n'", "tool": "gh:notes"}]}' > "$1"`)
		h.want(screen.Replan{Run: runA})
		if n := len(seen()); n != 3 {
			t.Fatalf("edited %d times, want 3", n)
		}
		if want := "// Tasks to add to 7f3a91c2, in JSON."; !strings.HasPrefix(seen()[0], want) {
			t.Errorf("the template: %s", seen()[0])
		}
		file := h.edits[2]
		t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(file)) })
		h.shows("nothing was added; your text is in " + file)
		if kept, err := os.ReadFile(file); err != nil || !strings.Contains(string(kept), `"id": "n2"`) {
			t.Errorf("kept: %s %v", kept, err)
		}
	})
	t.Run("NoRun", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, nil)
		h.want(screen.Replan{Run: runA})
		h.shows("cannot replan 7f3a91c2: there is no run")
	})
}

func TestModel_View(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	seen := h.editWith(`chmod 600 "$1"; echo changed > "$1"`)
	h.want(screen.View{Name: "../../etc/pass wd.json", Text: "{\"a\": 1}\n"})
	if diff := cmp.Diff([]string{"{\"a\": 1}\n"}, seen()); diff != "" {
		t.Error(diff)
	}
	if got := filepath.Base(h.edits[0]); got != "_.._etc_pass_wd.json" {
		t.Errorf("the file is called %q", got)
	}
	h.gone()
	if diff := cmp.Diff([]string{"tea.enableMouseCellMotionMsg"}, types(h.other)); diff != "" {
		t.Errorf("after the editor: %s", diff)
	}
	h.vars["VISUAL"] = "/nowhere/editor"
	h.want(screen.View{Name: "a", Text: "b"})
	h.shows("cannot show it: the editor failed")
	h.gone()
}

func TestDraft_Mode(t *testing.T) {
	t.Parallel()
	d, err := newDraft("a.json", "text", 0o400)
	if err != nil {
		t.Fatal(err)
	}
	defer d.remove()
	for path, want := range map[string]os.FileMode{d.file: 0o400, d.dir: 0o700} {
		if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, fi.Mode().Perm(), err)
		}
	}
}

func TestModel_Save(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.want(screen.Save{Name: "result/1.json", Text: "{}"})
	file := filepath.Join(h.m.dir, "result_1.json")
	data, err := os.ReadFile(file)
	if err != nil || string(data) != "{}" {
		t.Fatalf("%q, %v", data, err)
	}
	if fi, _ := os.Stat(file); fi.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", fi.Mode())
	}
	h.shows("saved to ")
	h.want(screen.Save{Name: "result/1.json", Text: "other"})
	h.shows("is there already; nothing was written")
	if data, _ := os.ReadFile(file); string(data) != "{}" {
		t.Errorf("it was overwritten with %q", data)
	}
	link := filepath.Join(h.m.dir, "link")
	if err := os.Symlink(filepath.Join(h.m.dir, "elsewhere"), link); err != nil {
		t.Fatal(err)
	}
	h.want(screen.Save{Name: "link", Text: "x"})
	if _, err := os.Stat(filepath.Join(h.m.dir, "elsewhere")); err == nil {
		t.Error("followed a link")
	}
}

func TestFileName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"a.json": "a.json", "../a": "_a", ".ssh": "ssh", "": "pml.txt", "...": "pml.txt", "-rf": "rf", "a b\x1b\n世": "a_b___",
		strings.Repeat("a", 200) + ".json": strings.Repeat("a", 95) + ".json",
	} {
		if got := fileName(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
