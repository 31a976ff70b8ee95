//go:build unix

package crash_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/skiptest"
)

// asksRec asks about every call of the recorder that changes something.
func asksRec() pmltest.Config {
	c := pmltest.AllowRec()
	c.Permissions["ask"] = []string{"rec:inc", "rec:hold"}
	return c
}

// shapeMax is how many calls the yes of these tests is for, of 40 that a script makes.
const shapeMax = 10

// wantTen wants that a yes to a loop has let its ten calls on, each once and with one row of
// the audit log, and none besides.
func wantTen(m *pmltest.Machine, id core.ID) {
	m.T.Helper()
	starts := map[string]int{}
	for _, call := range m.Calls() {
		starts[call]++
	}
	for call, n := range starts {
		if n != 1 {
			m.T.Errorf("%s was made %d times", call, n)
		}
	}
	if len(starts) != shapeMax {
		m.T.Errorf("%d calls, want %d: %v", len(starts), shapeMax, starts)
	}
	var log api.Page[core.AuditRow]
	m.OK("audit", "ls", "--json").Decode(&log)
	rows, shape, by := map[string]int{}, "", core.ID("")
	for _, r := range log.Items {
		if r.RunID != id || r.Shape == "" {
			continue
		}
		rows[r.CallID]++
		if shape == "" {
			shape, by = r.Shape, r.ApprovalID
		}
		if r.Outcome != core.ApprovalApproved || r.Tool == "" || r.Digest == "" || r.By.Who == "" || r.Shape != shape || r.ApprovalID != by {
			m.T.Errorf("row %+v", r)
		}
	}
	for call, n := range rows {
		if n != 1 {
			m.T.Errorf("the call %s has %d rows", call, n)
		}
	}
	if len(rows) != shapeMax {
		m.T.Errorf("%d calls have rows, want %d: %v", len(rows), shapeMax, rows)
	}
	if m.OK("audit", "verify").Exit != 0 {
		m.T.Error("the audit log does not verify")
	}
}

// A yes to a loop lets as many calls on as it is for, one after the other or all at once;
// the next one is asked about.
func TestShape_Ten(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		script string
		asked  int // that still wait afterwards
	}{
		"one by one": {`for (let i = 0; i < 40; i++) { await mcp.rec.inc({key: "k" + i}); } return 1`, 1},
		"at once":    {`await Promise.all(Array.from({length: 40}, (_, i) => mcp.rec.inc({key: "k" + i}))); return 1`, 30},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := pmltest.NewMachine(t, asksRec())
			first := m.Execute(8, tt.script)
			if n := m.Count("inc"); n != 0 {
				t.Fatalf("%d calls before a yes", n)
			}
			r := m.JSON(8, "approve", string(first.CheckpointID), "--shape", "--max", "10")
			if r.Status != api.StatusApprovalRequired || r.CheckpointID == first.CheckpointID {
				t.Errorf("%+v", r)
			}
			wantTen(m, first.WorkflowID)
			if open := m.Approvals(); len(open) != tt.asked || open[0].Tool != "rec:inc" {
				t.Errorf("%d wait, want %d: %+v", len(open), tt.asked, open)
			}
		})
	}
}

// TestShape_Killed kills pml and its children while the fifth of the ten calls is made: the
// process that takes the run up asks about that one, goes on counting, and stops at ten.
func TestShape_Killed(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, asksRec())
	file := func(i int) string { return fmt.Sprintf("%s/f%d", m.Dir, i) }
	first := m.Execute(8, fmt.Sprintf(`for (let i = 0; i < 40; i++) { await mcp.rec.hold({file: %q + i}); } return 1`, m.Dir+"/f"))
	for i := range 4 {
		pmltest.Touch(t, file(i))
	}
	p := m.Start("approve", string(first.CheckpointID), "--shape", "--max", "10")
	pmltest.WaitFor(t, "the fifth call", func() bool { return m.Count("hold") == 5 })
	p.Kill()
	for i := 4; i < 40; i++ {
		pmltest.Touch(t, file(i))
	}
	doubt := m.JSON(8, "continue", string(first.WorkflowID))
	if doubt.ApprovalType != core.ApproveInDoubt || m.Count("hold") != 5 {
		t.Fatalf("%d calls, and %+v", m.Count("hold"), doubt)
	}
	r := m.JSON(8, "continue", string(first.WorkflowID), "--answer", "skip", "--result", `{"file":"x"}`)
	if r.ApprovalType != core.ApproveTool || !strings.Contains(string(r.Context), "/f10") {
		t.Errorf("%+v", r)
	}
	wantTen(m, first.WorkflowID)
}

// TestShape_KilledAtAnyMoment kills pml again and again, at random moments, from the first
// yes until the eleventh call is asked about.
func TestShape_KilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "kills runs as TestKilled_AtAnyMoment does")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	for range rounds(t, skiptest.Sized(t, 1, 3)) {
		m := pmltest.NewMachine(t, asksRec())
		id := m.Execute(8, `for (let i = 0; i < 40; i++) {
			await mcp.rec.inc({key: "k" + i});
			await new Promise((go) => setTimeout(go, 15)); // there is time to be killed in
		} return 1`).WorkflowID
		for step := 0; ; step++ {
			if step > 60 {
				t.Fatalf("the eleventh call is not asked about after %d processes", step)
			}
			w := m.Workflow(id)
			args := nextStep(m, w)
			if args[len(args)-1] == "--approve" {
				if slices.ContainsFunc(w.Approvals, func(ap core.Approval) bool { return ap.Shape() != nil }) {
					break // the next call is asked about
				}
				args = append(args, "--shape", "--max", "10")
			}
			before, p := m.Count("inc"), m.Start(args...)
			if step < 20 {
				killSoon(m, p, before+random.IntN(3), time.Duration(random.IntN(20))*time.Millisecond)
			}
			p.Wait()
			t.Logf("process %d: %d calls", step, m.Count("inc"))
		}
		if wantTen(m, id); t.Failed() {
			return
		}
	}
}

// killSoon kills pml and its children a moment after so many calls have been made, if it has
// not ended before.
func killSoon(m *pmltest.Machine, p *pmltest.Process, calls int, after time.Duration) {
	m.T.Helper()
	over := func() bool {
		select {
		case <-p.Ended():
			return true
		default:
			return m.Count("inc") >= calls
		}
	}
	pmltest.WaitFor(m.T, "calls, or an end", over)
	select {
	case <-p.Ended():
	case <-time.After(after):
	}
	p.Kill()
}
