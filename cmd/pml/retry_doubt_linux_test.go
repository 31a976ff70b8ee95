package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
)

// TestRetry_MayHaveRun: a server ends in the middle of a call with side effects.
// The failure says that the call may have run, and retry asks, instead of making
// it again.
func TestRetry_MayHaveRun(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]struct {
		args  []string
		calls int
	}{
		"RunAgain": {[]string{"--approve", "--answer", "run-again"}, 2},
		"Skip":     {[]string{"--approve", "--answer", "skip", "--result", `{"count":1}`}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := bareMachine(t)
			die := filepath.Join(m.Dir, "die")
			c := allowRec()
			c.Servers = map[string]map[string]any{"rec": m.rec(map[string]any{"args": []string{"--log", m.Log, "--die", die}})}
			m.configure(c)
			touch(t, die)
			o := m.exit(5, "execute", "--json", m.dag("dag.json", task("a", "rec:inc", `{"key":"a"}`, nil), task("b", "rec:put", `{"key":"b","value":1}`, after("a"))))
			if !strings.Contains(o.Stdout+o.Stderr, "rec:inc may have run") {
				t.Errorf("the failure does not say that it may have run: %s%s", o.Stdout, o.Stderr)
			}
			if err := os.Remove(die); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			id := string(m.latest().ID)
			r := m.json(8, "retry", id)
			if r.ApprovalType != core.ApproveInDoubt || m.count("inc") != 1 {
				t.Fatalf("%+v after %d calls", r, m.count("inc"))
			}
			m.json(0, append([]string{"continue", id}, answer.args...)...)
			if m.count("inc") != answer.calls || m.count("put") != 1 {
				t.Errorf("calls %v", m.calls())
			}
		})
	}
}

// TestRetry_AfterATimeout: neither the attempts that a task asks for nor retry
// make a call with side effects again that has not answered in time.
func TestRetry_AfterATimeout(t *testing.T) {
	t.Parallel()
	m := newMachine(t, allowRec())
	file := filepath.Join(m.Dir, "go-on")
	o := m.exit(1, "execute", "--json", m.write("hold.json", `{"tasks":[{"id":"h","tool":"rec:hold","arguments":{"file":"`+file+`"},
		"timeout_ms":200,"retry":{"max_attempts":3}}]}`))
	if !strings.Contains(o.Stdout+o.Stderr, "may have run") || m.count("hold") != 1 {
		t.Errorf("%d calls: %s%s", m.count("hold"), o.Stdout, o.Stderr)
	}
	touch(t, file)
	id := string(m.latest().ID)
	if r := m.json(8, "retry", id); r.ApprovalType != core.ApproveInDoubt || m.count("hold") != 1 {
		t.Fatalf("%+v after %d calls", r, m.count("hold"))
	}
	m.exit(9, "continue", id, "--deny")
	if r := m.json(8, "retry", id); r.ApprovalType != core.ApproveInDoubt || m.count("hold") != 1 {
		t.Fatalf("%+v after %d calls", r, m.count("hold"))
	}
}

// TestRetry_NotMade: a server ends while a call waits for its turn, and cannot be
// started for it. The call has been journaled, but nothing of it got anywhere: it
// says so, and retry makes it, once, without a question.
func TestRetry_NotMade(t *testing.T) {
	t.Parallel()
	m := bareMachine(t)
	die, up := filepath.Join(m.Dir, "die"), filepath.Join(m.Dir, "up")
	c := allowRec()
	c.Limits = map[string]any{"concurrency": 1}
	// It starts once, until the file is taken away.
	c.Servers = map[string]map[string]any{"rec": {"command": "/bin/sh", "args": []string{
		"-c", `test -e "$1" && { echo "the disk is away" >&2; exit 3; }; : > "$1"; exec "$2" --log "$3" --die "$4"`, "sh", up, recorderBin(t), m.Log, die,
	}}}
	m.configure(c)
	touch(t, die)
	o := m.exit(5, "execute", "--json", m.dag("dag.json",
		task("a", "rec:put", `{"key":"a","value":1}`, nil), task("b", "rec:inc", `{"key":"b"}`, nil)))
	b := tasksOf(m.workflow(m.latest().ID))["b"]
	if b.Error == nil || !b.Error.NotMade || strings.Contains(o.Stdout+o.Stderr, "rec:inc may have run") || m.count("inc") != 0 {
		t.Fatalf("%+v: %s%s", b, o.Stdout, o.Stderr)
	}
	if err := os.Remove(up); err != nil {
		t.Fatal(err)
	}
	m.json(0, "retry", string(m.latest().ID))
	if m.count("inc") != 1 || m.count("put") != 2 {
		t.Errorf("calls %v", m.calls())
	}
}
