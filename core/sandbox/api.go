package sandbox

import (
	"encoding/json"
	"time"

	"github.com/casys-ai/pml/core"
)

// Version is stored with stripped scripts, so that a newer pml can replay them
// as they were stripped.
const Version = "qjs1"

// Limits bound what a script may use. A field that is zero has its default.
type Limits struct {
	// CPU is the time of one turn: from a delivery until the script is idle. Default 30 s.
	CPU time.Duration
	// MemoryBytes is what the VM may allocate. Default 128 MiB. On Linux the
	// child as a whole gets a limit somewhat above it.
	MemoryBytes int64
	// StackBytes bounds recursion. Default 1 MiB of script frames.
	StackBytes int64
	// ResultBytes bounds the script's result, and the arguments of one call,
	// as JSON. Default 8 MiB.
	ResultBytes int64
	// LogBytes bounds all console output of a run; the rest is dropped, and
	// one line says so. Default 1 MiB.
	LogBytes int64
	// SourceBytes bounds the code. Default 100 KiB.
	SourceBytes int
}

// MaxResultBytes bounds what a script may be let return: a result is in the VM's
// memory with all else, and a line of the child holds a few of them.
const MaxResultBytes = 32 << 20

// Options configure a Pool.
type Options struct {
	// Command starts a child: a binary and its hidden subcommand.
	Command []string
	// Warm is how many started children are kept ready: 0 means the default of
	// one, a negative number none. None starts before Warm or the first use.
	Warm int
	// Keep is how many children that were in use together are kept for the next
	// requests, where that is more than Warm.
	Keep int
	// Limits bound every script of the pool.
	Limits Limits
	// Memory bounds what all scripts that are under way hold together. Where there
	// is too little for one more turn, VMs of scripts that wait are given back and
	// made again when they are needed; else the turn waits. Default 2 GiB.
	Memory int64
	// Reuse lets a child serve another script, in a VM of its own, after one that
	// ended within its limits. It is for pools whose scripts are all of one user:
	// one that broke out of its VM would be there for the next.
	Reuse bool
	// Env is the whole environment of a child, normally empty.
	Env []string
}

// Compiled is code that is ready to run.
type Compiled struct {
	// Script is the JavaScript that runs and that replays run again.
	Script string
	// Plan is what analysis predicts.
	Plan *core.Plan
}

// Start says what a session runs.
type Start struct {
	Script string
	// Source is the user's code that Script was compiled from and File its
	// name; both serve the positions in errors and may be empty.
	Source string
	File   string
	// Input is the script's input; empty means null.
	Input json.RawMessage
	// Results is an object that the script has as results; empty: it has none.
	Results json.RawMessage
	// Seed decides Math.random and crypto.randomUUID.
	Seed string
	// Now is the time that the script reads until the first delivery.
	Now time.Time
	// Owner is who has started the run: where memory is short, each owner gets as
	// much as the others.
	Owner string
	// CPU and ResultBytes stand for those of the pool's limits, unless zero.
	CPU         time.Duration
	ResultBytes int64
	// ToldBytes is what pml.limits.result_bytes says in the script, at most what holds; 0: what
	// holds. A replay says what was said first.
	ToldBytes int64
}

// Call is a tool call, or a sleep, that the script has started.
type Call struct {
	// ID counts the calls of a session from 1, in the order in which they were made.
	ID     int
	Server string
	Tool   string
	Args   json.RawMessage
	// Sleep is how long a timer waits, when IsSleep is set.
	Sleep   time.Duration
	IsSleep bool
	// Site is the place of the call in the script, At in the user's source;
	// zero when it is not known.
	Site core.Position
	At   core.Position
	// After is the Seq of the delivery that led to the call; 0: the start.
	After int64
}

// Log is one line of console output.
type Log struct {
	// Level is debug, info, log, warn or error.
	Level string
	Text  string
}

// Turn is what a script did until it had to wait.
type Turn struct {
	// Calls are the calls that it started, in order.
	Calls []Call
	Logs  []Log
	// Cancelled are the ids of timers that clearTimeout took back; their
	// deliveries, should they come, do nothing.
	Cancelled []int
	// Done says that the main function has returned or thrown; it stays set in
	// later turns. Calls that nobody awaits may still be open.
	Done bool
	// Result is what the script returned, once Done; null for nothing.
	Result json.RawMessage
	// Err is the exception that the script did not catch, once Done.
	Err *core.Error
	// Unhandled is a rejection that nobody handles, as of this turn.
	Unhandled *core.Error
}

// Delivery is the outcome of a call, handed to the script.
type Delivery struct {
	// Seq orders deliveries; calls that follow name it in After.
	Seq    int64
	CallID int
	// Value is the result as JSON; empty means undefined (as after a sleep).
	Value json.RawMessage
	// Err, when set, rejects the call with a ToolError.
	Err *core.Error
	// At becomes the script's time.
	At time.Time
}

// EvalRequest is a pure evaluation: no mcp, no timers.
type EvalRequest struct {
	Source string
	// Expression says that Source is one expression whose value is the result;
	// otherwise it is the body of an async function.
	Expression bool
	// Script, when it is set, stands for Source: what Compile made of a body, which
	// need not be read again for each evaluation.
	Script string
	// Globals are set before the evaluation.
	Globals map[string]json.RawMessage
	// Frozen lets nothing be changed in the globals, and leaves away what only scripts
	// of runs have (pml).
	Frozen bool
	Now    time.Time
	Seed   string
	// CPU stands for that of the pool's limits, unless zero.
	CPU time.Duration
}

// Evaluated is what became of an evaluation.
type Evaluated struct {
	// Value is what it returned, as JSON: null for undefined, empty after an error.
	Value json.RawMessage
	// Logs are its console output, after an error too.
	Logs []Log
}

// Analyzer predicts what a script will call. It runs in the child, because it
// parses foreign code. toSource maps a position of the script to the user's source.
type Analyzer func(script string, toSource func(core.Position) core.Position) (*core.Plan, error)
