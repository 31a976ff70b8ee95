package sandbox

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
)

// fakeClocks go on by a step each time they are asked.
type fakeClocks struct {
	wall, used         time.Duration
	wallStep, usedStep time.Duration
	unknown            bool
}

func (f *fakeClocks) clocks() clocks {
	return clocks{
		now: func() time.Time { f.wall += f.wallStep; return time.Unix(0, 0).Add(f.wall) },
		used: func() (time.Duration, bool) {
			f.used += f.usedStep
			return f.used, !f.unknown
		},
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	const limit = time.Second
	for name, tt := range map[string]struct {
		wall, used time.Duration
		unknown    bool
		over, late bool
	}{
		"begins":               {},
		"before the limit":     {wall: limit - 1, used: limit - 1},
		"many threads":         {wall: limit - 1, used: 3 * limit},
		"at the limit":         {wall: limit, used: limit, over: true},
		"waits for its turn":   {wall: limit, used: limit - 1, late: true},
		"waits long":           {wall: maxStretch*limit - 1, used: limit / 2, late: true},
		"had its time at last": {wall: 5 * limit, used: limit, over: true},
		"blocks":               {wall: maxStretch * limit, over: true},
		"nobody knows":         {wall: limit, unknown: true, over: true},
		"nobody knows yet":     {wall: limit - 1, unknown: true},
	} {
		f := &fakeClocks{used: time.Hour, unknown: tt.unknown} // what came before does not count
		d := f.clocks().after(limit)
		f.wall, f.used = tt.wall, f.used+tt.used
		if over, late := d.state(); over != tt.over || late != tt.late {
			t.Errorf("%s: over %t, late %t; want %t, %t", name, over, late, tt.over, tt.late)
		}
	}
	if over, late := (&deadline{}).state(); over || late {
		t.Error("no deadline ended something")
	}
}

// TestDeadline_ClockFails: a clock that stops telling leaves wall time.
func TestDeadline_ClockFails(t *testing.T) {
	t.Parallel()
	f := &fakeClocks{}
	d := f.clocks().after(time.Second)
	f.wall, f.unknown = 2*time.Second, true
	if over, late := d.state(); !over || late {
		t.Errorf("over %t, late %t", over, late)
	}
}

func TestProcessorTime(t *testing.T) {
	t.Parallel()
	before, ok := processorTime()
	if !ok {
		if runtime.GOOS == "linux" || runtime.GOOS == "darwin" {
			t.Fatal("this system tells the processor time, but nobody asked")
		}
		t.Skip("this system does not tell")
	}
	for now := before; now-before < 20*time.Millisecond; { // works until it is seen
		now, _ = processorTime()
	}
}

// turn runs a script until it waits, on clocks of the test's own.
func turn(t *testing.T, f *fakeClocks, script string) (v *jsVM, late int, err *core.Error) {
	t.Helper()
	v, e := newVM(f.clocks(), watch{closed: func() bool { return false }, late: func() { late++ }})
	if e != nil {
		t.Fatal(e)
	}
	t.Cleanup(v.close)
	err = v.start(&request{Script: script, Limits: Limits{CPU: time.Second}.withDefaults()})
	return v, late, err
}

// work runs long enough for the clocks to be asked many times.
const work = `let n = 0; for (let i = 0; i < 4e5; i++) { n += i % 7 } return n`

// TestTurn_BusyMachine: a script that gets a tenth of a processor has its whole
// time, and its parent hears of it.
func TestTurn_BusyMachine(t *testing.T) {
	t.Parallel()
	v, late, err := turn(t, &fakeClocks{wallStep: 50 * time.Millisecond, usedStep: time.Millisecond}, work)
	if err != nil || !v.turn.Done || v.turn.Err != nil {
		t.Fatalf("an innocent script failed on a busy machine: %v, %v", err, v.turn.Err)
	}
	if late == 0 {
		t.Error("the turn was never late, so that this tests nothing")
	}
}

// TestTurn_Ends: whatever the clocks say, a loop ends, also one that catches.
func TestTurn_Ends(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]*fakeClocks{
		"busy":         {wallStep: 200 * time.Millisecond, usedStep: 200 * time.Millisecond},
		"starved":      {wallStep: 500 * time.Millisecond, usedStep: 100 * time.Millisecond},
		"no processor": {wallStep: time.Second},
		"unknown":      {wallStep: 200 * time.Millisecond, unknown: true},
	} {
		for _, script := range []string{
			`while (true) {}`, `while (true) { try { while (true) {} } catch {} }`,
			`const f = async () => { while (true) await null }; await f()`, `await (async () => { try { while (true) {} } finally { return 1 } })()`,
		} {
			_, _, err := turn(t, &fakeClocks{wallStep: f.wallStep, usedStep: f.usedStep, unknown: f.unknown}, script)
			if core.CodeOf(err) != core.CodeSandboxTimeout || !strings.Contains(err.Error(), "1s") {
				t.Errorf("%s: %s: got %v", name, script, err)
			}
		}
	}
}

// TestTurn_ParentGone: a loop ends when nobody waits for it any more.
func TestTurn_ParentGone(t *testing.T) {
	t.Parallel()
	asked := 0
	v, e := newVM(systemClocks(), watch{closed: func() bool { asked++; return asked > 100 }, late: func() {}})
	if e != nil {
		t.Fatal(e)
	}
	t.Cleanup(v.close)
	err := v.start(&request{Script: `while (true) {}`, Limits: Limits{CPU: time.Hour}.withDefaults()})
	if core.CodeOf(err) != core.CodeCancelled {
		t.Errorf("got %v", err)
	}
}
