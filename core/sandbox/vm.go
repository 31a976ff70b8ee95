package sandbox

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"runtime/debug"

	"modernc.org/quickjs"

	"github.com/casys-ai/pml/core"
)

// jsVM is one QuickJS VM with the world of a script in it. It serves one run.
type jsVM struct {
	vm     *quickjs.VM
	engine *engine
	limits Limits
	api    map[string]quickjs.Value
	clocks clocks
	watch  watch
	// deadline is of what runs now.
	deadline deadline

	sm       *sourceMap
	mappings string
	body     string // the script that runs
	turn     wireTurn
	argBytes int64
	logBytes int64
	logFull  bool
	looking  bool // for the place of a script that has run for too long
	// fatal ends the VM: a limit was hit.
	fatal *core.Error
}

var apiNames = []string{"start", "run", "deliver", "lost", "global", "pure"}

// watch is how a VM in a long turn and its parent know of each other.
type watch struct {
	closed func() bool // the parent is gone
	// late is called when a turn is past its limit on the wall clock, but not by
	// the processor time that it got.
	late func()
}

// newVM makes a VM and prepares its world.
func newVM(c clocks, w watch) (*jsVM, error) {
	q, err := quickjs.NewVM()
	if err != nil {
		return nil, err
	}
	v := &jsVM{vm: q, clocks: c, watch: w, api: map[string]quickjs.Value{}}
	if v.engine, err = newEngine(q); err != nil {
		return nil, err
	}
	hooks := map[string]quickjs.HostFunc{
		"__pml_call": v.onCall, "__pml_sleep": v.onSleep, "__pml_cancel": v.onCancel, "__pml_log": v.onLog,
		"__pml_hint": func(args []any) (any, error) { return instead[str(args, 0)], nil },
		"__pml_done": v.onDone, "__pml_fail": v.onFail, "__pml_lost": v.onLost,
		"__pml_web":   func([]any) (any, error) { return nil, webProgram.run(q, v.engine) },
		"__pml_table": func([]any) (any, error) { return nil, tables.run(q, v.engine) },
	}
	for name, f := range hooks {
		if err := q.RegisterHostFunc(name, f); err != nil {
			return nil, err
		}
	}
	if err := bootProgram.run(q, v.engine); err != nil {
		return nil, err
	}
	if err := v.engine.trackRejections("__pml_api", "track"); err != nil {
		return nil, err
	}
	if v.engine.here, err = v.engine.find([]string{"__pml_api", "here"}); err != nil {
		return nil, err
	}
	v.engine.onInterrupt(v.mustStop)
	return v, v.takeAPI()
}

// takeAPI keeps the entries of the bootstrap and removes them from the script's sight.
func (v *jsVM) takeAPI() error {
	for _, name := range apiNames {
		f, err := v.vm.EvalValue("__pml_api."+name, quickjs.EvalGlobal)
		if err != nil {
			return err
		}
		v.api[name] = f
	}
	_, err := v.vm.Eval("delete globalThis.__pml_api", quickjs.EvalGlobal)
	return err
}

// limit sets what the VM may use.
func (v *jsVM) limit(l Limits) {
	v.limits = l
	v.vm.SetMemoryLimit(uintptr(l.MemoryBytes))
	// Cycles are looked for more rarely than the engine's own 256 KiB would have it.
	v.vm.SetGCThreshold(uintptr(min(8<<20, l.MemoryBytes/8)))
	v.vm.SetMaxStackSize(l.stackSlots())
	// What JSON takes outside the VM is small beside it.
	debug.SetMemoryLimit(l.MemoryBytes/2 + 64<<20)
}

// begin sets time, seed, input and results of earlier scripts.
func (v *jsVM) begin(now int64, seed string, input, results json.RawMessage, told int64) *core.Error {
	h := sha256.Sum256([]byte("pml sandbox seed\x00" + seed))
	args := []any{string(input), float64(now)}
	for i := range 4 {
		args = append(args, float64(binary.BigEndian.Uint32(h[4*i:])))
	}
	if told <= 0 {
		told = v.limits.ResultBytes
	}
	return v.enter("start", append(args, float64(v.limits.ResultBytes), float64(v.limits.LogBytes), float64(told), string(results))...)
}

// load makes the function that runs body, as a value of the VM.
func (v *jsVM) load(body string) (quickjs.Value, *core.Error) {
	if e := v.armed(v.clocks.after(v.limits.CPU)); e != nil {
		return quickjs.Value{}, e
	}
	f, err := v.vm.EvalValue(wrapHead+body+wrapTail, quickjs.EvalGlobal)
	if err != nil {
		if e := v.stopped(); e != nil {
			return f, e
		}
		return f, v.syntax(err)
	}
	return f, nil
}

// syntax reports what the engine, rather than esbuild, does not accept.
func (v *jsVM) syntax(err error) *core.Error {
	var q *quickjs.Error
	if !errors.As(err, &q) {
		return core.AsError(err)
	}
	if isOutOfMemory(q.Name, q.Message) {
		return v.outOfMemory()
	}
	e := core.Errorf(core.CodeSyntax, "%s", q.Message)
	if q.LineNumber > 1 {
		at := v.source(core.Position{Line: q.LineNumber - 1, Column: max(1, q.ColumnNumber)})
		e.Location = &at
	}
	return e
}

// loadScript makes the function of a script, with its own map of positions: the VM may have
// compiled another script before.
func (v *jsVM) loadScript(script string) (quickjs.Value, *core.Error) {
	v.sm = nil
	v.body, v.mappings = splitMap(script)
	return v.load(v.body)
}

// start runs a script until it waits.
func (v *jsVM) start(r *request) *core.Error {
	v.limit(r.Limits)
	if e := v.begin(r.Now, r.Seed, r.Input, r.Results, r.Told); e != nil {
		return e
	}
	f, e := v.loadScript(r.Script)
	if e != nil {
		return e
	}
	defer f.Free()
	return v.settle(v.clocks.after(v.limits.CPU), "run", f)
}

// deliver hands one outcome to the script and runs it until it waits.
func (v *jsVM) deliver(d wireDelivery) *core.Error {
	code, message := "", ""
	if d.Err != nil {
		code, message = string(d.Err.Code), d.Err.Message
		if code == "" {
			code = string(core.CodeToolFailed)
		}
	}
	if e := v.armed(v.clocks.after(v.limits.CPU)); e != nil {
		return e
	}
	r, err := v.api["deliver"].Call(v.api["deliver"], d.ID, float64(d.Seq), float64(d.At), string(d.value), code, message, d.Err != nil && d.Err.Retryable)
	if e := v.after(err); e != nil {
		return e
	}
	if s, _ := r.(string); s != "" {
		return core.Errorf(core.CodeReplay, "the journal has an outcome for call c%d, which the script has %s",
			d.ID, map[string]string{"unknown": "not made", "twice": "been given already"}[s])
	}
	return v.drain()
}

// settle calls an entry and runs what follows from it.
func (v *jsVM) settle(d deadline, name string, args ...any) *core.Error {
	if e := v.armed(d); e != nil {
		return e
	}
	_, err := v.api[name].Call(v.api[name], args...)
	if e := v.after(err); e != nil {
		return e
	}
	return v.drain()
}

// enter calls an entry of ours that runs nothing of the script.
func (v *jsVM) enter(name string, args ...any) *core.Error {
	if e := v.armed(v.clocks.after(v.limits.CPU)); e != nil {
		return e
	}
	_, err := v.api[name].Call(v.api[name], args...)
	return v.after(err)
}

// drain runs microtasks until there is none.
func (v *jsVM) drain() *core.Error {
	for {
		if e := v.stopped(); e != nil {
			return e
		}
		n, err := v.vm.ExecutePendingJobs()
		// A failing job has told its promise; only limits matter here.
		if e := v.stopped(); e != nil {
			return e
		}
		if err == nil || n == 0 {
			return nil
		}
	}
}

// armed sets the deadline of what runs next.
func (v *jsVM) armed(d deadline) *core.Error {
	v.deadline = d
	return v.stopped()
}

// stopped says why the VM had to stop, if it had. A promise may have taken the
// exception of an interrupt, so the clock is asked, not the error.
func (v *jsVM) stopped() *core.Error {
	if v.fatal != nil {
		return v.fatal
	}
	over, late := v.deadline.state()
	switch {
	case v.watch.closed():
		v.fatal = core.Errorf(core.CodeCancelled, "the parent has closed the connection")
	case over:
		v.fatal = v.timedOut()
	case late:
		v.watch.late()
	}
	return v.fatal
}

// mustStop is asked by the engine now and then while it runs.
func (v *jsVM) mustStop() bool {
	if v.looking || v.stopped() == nil {
		return false
	}
	if v.fatal.Code == core.CodeSandboxTimeout && v.fatal.Location == nil {
		v.looking = true // where it is: this runs a line of the bootstrap
		v.place(v.fatal, v.engine.stack())
		v.looking = false
	}
	v.vm.Interrupt() // the wrapper has to know as well: it ends a list of jobs
	return true
}

// after judges the error of a call into the VM.
func (v *jsVM) after(err error) *core.Error {
	if e := v.stopped(); e != nil || err == nil {
		return e
	}
	var q *quickjs.Error
	if errors.As(err, &q) && isOutOfMemory(q.Name, q.Message) {
		return v.outOfMemory()
	}
	return core.Errorf(core.CodeSandboxCrashed, "the sandbox failed: %w", err)
}

// take returns the turn so far and starts a new one.
func (v *jsVM) take() (*wireTurn, *core.Error) {
	v.turn.Unhandled = nil
	if v.turn.Done {
		if e := v.enter("lost"); e != nil {
			return nil, e
		}
	}
	t := v.turn
	v.turn = wireTurn{Done: t.Done, Result: t.Result, Err: t.Err}
	v.argBytes = 0
	return &t, nil
}

func (v *jsVM) close() {
	for _, f := range v.api {
		f.Free()
	}
	v.engine.close()
	_ = v.vm.Close()
}

func (v *jsVM) timedOut() *core.Error {
	return core.Errorf(core.CodeSandboxTimeout, "the script ran for %v without waiting for anything (limits.cpu): look for a loop that does not end, or do the work in a tool; Date.now() stands still between two calls, so a loop cannot wait for it", v.limits.CPU)
}

func (v *jsVM) outOfMemory() *core.Error {
	return core.Errorf(core.CodeSandboxMemory, "the script needs more memory than the limit of %d MiB: work on smaller pieces", v.limits.MemoryBytes>>20)
}

// stop ends the VM from within a host function.
func (v *jsVM) stop(e *core.Error) error {
	if v.fatal == nil {
		v.fatal = e
	}
	v.vm.Interrupt()
	return e
}
