package crash_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
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
			m := pmltest.BareMachine(t)
			die := filepath.Join(m.Dir, "die")
			c := pmltest.AllowRec()
			c.Servers = map[string]map[string]any{"rec": m.Rec(map[string]any{"args": []string{"--log", m.Log, "--die", die}})}
			m.Configure(c)
			pmltest.Touch(t, die)
			o := m.Exit(5, "execute", "--json", m.DAG("dag.json", pmltest.Task("a", "rec:inc", `{"key":"a"}`, nil), pmltest.Task("b", "rec:put", `{"key":"b","value":1}`, pmltest.After("a"))))
			if !strings.Contains(o.Stdout+o.Stderr, "rec:inc may have run") {
				t.Errorf("the failure does not say that it may have run: %s%s", o.Stdout, o.Stderr)
			}
			if err := os.Remove(die); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			id := string(m.Latest().ID)
			r := m.JSON(8, "retry", id)
			if r.ApprovalType != core.ApproveInDoubt || m.Count("inc") != 1 {
				t.Fatalf("%+v after %d calls", r, m.Count("inc"))
			}
			m.JSON(0, append([]string{"continue", id}, answer.args...)...)
			if m.Count("inc") != answer.calls || m.Count("put") != 1 {
				t.Errorf("calls %v", m.Calls())
			}
		})
	}
}

// TestRetry_AfterATimeout: neither the attempts that a task asks for nor retry
// make a call with side effects again that has not answered in time.
func TestRetry_AfterATimeout(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	file := filepath.Join(m.Dir, "go-on")
	o := m.Exit(1, "execute", "--json", m.Write("hold.json", `{"tasks":[{"id":"h","tool":"rec:hold","arguments":{"file":"`+file+`"},
		"timeout_ms":200,"retry":{"max_attempts":3}}]}`))
	if !strings.Contains(o.Stdout+o.Stderr, "may have run") || m.Count("hold") != 1 {
		t.Errorf("%d calls: %s%s", m.Count("hold"), o.Stdout, o.Stderr)
	}
	pmltest.Touch(t, file)
	id := string(m.Latest().ID)
	if r := m.JSON(8, "retry", id); r.ApprovalType != core.ApproveInDoubt || m.Count("hold") != 1 {
		t.Fatalf("%+v after %d calls", r, m.Count("hold"))
	}
	m.Exit(9, "continue", id, "--deny")
	if r := m.JSON(8, "retry", id); r.ApprovalType != core.ApproveInDoubt || m.Count("hold") != 1 {
		t.Fatalf("%+v after %d calls", r, m.Count("hold"))
	}
}

// TestRetry_NotMade: a server ends while a call waits for its turn, and cannot be
// started for it. The call has been journaled, but nothing of it got anywhere: it
// says so, and retry makes it, once, without a question.
func TestRetry_NotMade(t *testing.T) {
	t.Parallel()
	m := pmltest.BareMachine(t)
	die, up := filepath.Join(m.Dir, "die"), filepath.Join(m.Dir, "up")
	c := pmltest.AllowRec()
	c.Limits = map[string]any{"concurrency": 1}
	// It starts once, until the file is taken away.
	c.Servers = map[string]map[string]any{"rec": {"command": "/bin/sh", "args": []string{
		m.Write("rec.sh", `test -e "$1" && { echo "the disk is away" >&2; exit 3; }; : > "$1"; exec "$2" --log "$3" --die "$4"`), up, pmltest.Recorder(t), m.Log, die,
	}}}
	m.Configure(c)
	pmltest.Touch(t, die)
	o := m.Exit(5, "execute", "--json", m.DAG("dag.json",
		pmltest.Task("a", "rec:put", `{"key":"a","value":1}`, nil), pmltest.Task("b", "rec:inc", `{"key":"b"}`, nil)))
	b := pmltest.TasksOf(m.Workflow(m.Latest().ID))["b"]
	if b.Error == nil || !b.Error.NotMade || strings.Contains(o.Stdout+o.Stderr, "rec:inc may have run") || m.Count("inc") != 0 {
		t.Fatalf("%+v: %s%s", b, o.Stdout, o.Stderr)
	}
	if err := os.Remove(up); err != nil {
		t.Fatal(err)
	}
	m.JSON(0, "retry", string(m.Latest().ID))
	if m.Count("inc") != 1 || m.Count("put") != 2 {
		t.Errorf("calls %v", m.Calls())
	}
}
