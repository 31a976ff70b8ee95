package hook_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/skiptest"
)

// timed is a hook with a limit in milliseconds.
func timed(id, code string, ms string) node {
	n := script(id, code, false)
	n.data += `,"timeoutMs":` + ms
	return n
}

// What a hostile script tries ends in a refusal, or has no effect; the pool serves the
// next one as if nothing had been.
func TestRunner_Attacks(t *testing.T) {
	t.Parallel()
	attacks(t, map[string]attack{
		"OtherTool":           {code: `return {params: {name: "delete", arguments: {}}}`, want: "another tool"},
		"OtherServer":         {code: `return {params: {server: "shell", arguments: {}}}`, want: "params must be"},
		"Approval":            {code: `return {approve: true}`, want: "member approve"},
		"Asks":                {code: `return {asks: [], rule: "allow"}`, want: "member asks"},
		"Digest":              {code: `return {digest: "sha256:00"}`, want: "member digest"},
		"ToolByToJSON":        {code: `return {toJSON() { return {params: {name: "delete", arguments: {}}} }}`, want: "another tool"},
		"PollutedResult":      {code: `Object.prototype.params = {arguments: {a: 666}}; Object.prototype.block = {message: "x"}; return {}`, want: unchanged},
		"PollutedContext":     {code: `context.request.params.__proto__.arguments = {a: 666}; return {}`, want: unchanged},
		"ContextPrototype":    {code: `Object.setPrototypeOf(context.request.params, {name: "x"})`, want: "not extensible"},
		"ContextDefined":      {code: `Object.defineProperty(context.request, "params", {value: {}})`, want: "not configurable"},
		"ProtoMember":         {code: `return JSON.parse('{"__proto__": {"params": {}}}')`, want: "member __proto__"},
		"Getter":              {code: `return {get params() { throw new Error("got me") }}`, want: "got me"},
		"GetterTwice":         {code: `let n = 0; return {params: {get name() { return n++ ? "delete" : "write" }, arguments: {a: 1}}}`, want: unchanged},
		"Proxy":               {code: `return new Proxy({}, {ownKeys() { return ["approve"] }, getOwnPropertyDescriptor() { return {enumerable: true, configurable: true, value: 1} }, get() { return 1 }})`, want: "returned what"},
		"ProxyRevoked":        {code: `const p = Proxy.revocable({}, {}); p.revoke(); return p.proxy`, want: "failed"},
		"ThrowsProxy":         {code: `throw new Proxy({}, {get() { throw 1 }, getPrototypeOf() { throw 2 }})`, want: "failed"},
		"ThrowsNull":          {code: `throw null`, want: "failed"},
		"Thenable":            {code: `return {then(f) { f({approve: true}) }}`, want: "member approve"},
		"ThenableNever":       {code: `return {then() {}}`, want: "never happens"},
		"Symbol":              {code: `return Symbol("x")`, want: "symbol"},
		"SymbolKey":           {code: `return {[Symbol.for("params")]: {name: "delete"}}`, want: unchanged},
		"BigInt":              {code: `return {variables: {n: 1n}}`, want: "BigInt"},
		"Circular":            {code: `const o = {}; o.params = o; return o`, want: "circular"},
		"Function":            {code: `return () => 1`, want: "function"},
		"NotANumber":          {code: `return NaN || {variables: NaN}`, want: "variables must be"},
		"HugeVariables":       {code: `return {variables: {x: "x".repeat(1e5)}}`, want: "65536 bytes"},
		"ManyEffects":         {code: `return {effects: Array(21).fill({tool: "log", arguments: {}})}`, want: "at most 20"},
		"EffectNotListed":     {code: `return {effects: [{tool: "shell:run", arguments: {}}]}`, want: "under uses"},
		"EffectNameless":      {code: `return {effects: [{arguments: {}}]}`, want: "no such effect"},
		"Loop":                {code: `for (;;);`, want: "failed", ms: "200"},
		"Microtasks":          {code: `const f = () => Promise.resolve().then(f); f(); return {}`, want: "failed", ms: "200"},
		"MicrotasksBehind":    {code: `queueMicrotask(function f() { queueMicrotask(f) }); return {}`, want: "failed", ms: "200"},
		"RegExp":              {code: `/^(a+)+$/.test("a".repeat(40) + "b")`, want: "failed", ms: "200"},
		"CatchTimeout":        {code: `for (;;) try { for (;;); } catch {}`, want: "failed", ms: "200"},
		"NoProcess":           {code: `return {params: {arguments: {a: typeof process + typeof require + typeof Function("return this")().process + typeof mcp + typeof pml + typeof input === "undefined".repeat(6) ? 1 : 666}}}`, want: unchanged},
		"NoEngine":            {code: `return {params: {arguments: {a: Object.getOwnPropertyNames(globalThis).some(k => k.includes("__pml_") && k !== "__pml_none") ? 666 : 1}}}`, want: unchanged},
		"Import":              {code: `return await import("fs")`, want: "failed"},
		"OldResults":          {code: `globalThis.n = (globalThis.n ?? 0) + 1; JSON.stringify = () => "{}"; return {params: {arguments: {a: n}}}`, want: unchanged},
		"UnhandledBehind":     {code: `Promise.reject(new Error("lost")); return {}`, want: unchanged},
		"CloseTheFunction":    {code: `} }); (function () { return {`, want: "failed"},
		"SecretInTheBlock":    {code: `return {block: {message: "` + secret + `"}}`, want: "«KEY»"},
		"EscapesInTheBlock":   {code: `return {block: {message: "\u001b[2J\u202e"}}`, want: `\x1b[2J\u{202e}`},
		"NodeNamesItself":     {code: `return {block: {message: "x", node: "other"}}`, want: "block must be"},
		"ResponseNotAResult":  {code: `return {response: {toolResult: 1}}`, want: "needs content"},
		"ResponseHalfABlock":  {code: `return {response: {content: [{type: "text"}]}}`, want: "text"},
		"ResponseIsErrorText": {code: `return {response: {content: [], isError: "no"}}`, want: "isError must be"},
	})
}

// TestRunner_LargeAttacks takes what there is: memory, stack, the size of a message.
func TestRunner_LargeAttacks(t *testing.T) {
	t.Parallel()
	skiptest.NoRace(t)
	attacks(t, map[string]attack{
		"Deep":         {code: `let o = {}; for (let i = 0; i < 3000; i++) o = {o}; return {params: {arguments: o}}`, want: "deep"},
		"Huge":         {code: `return {params: {arguments: {x: "x".repeat(9e6)}}}`, want: "8388608"},
		"Memory":       {code: `const a = []; for (;;) a.push(new Array(1e5).fill(1.5))`, want: "memory"},
		"MemoryOfText": {code: `let s = "x"; for (;;) s += s`, want: "failed"},
		"Recursion":    {code: `const f = () => f() + 1; f()`, want: "failed"},
	})
}

// attack is a hostile script, and what comes of it.
type attack struct {
	code string
	want string // what the error says; unchanged: the call goes on as it was
	ms   string // the script's time, in milliseconds
}

const unchanged = ""

// attacks runs each script twice: the second time finds what the first one left behind.
func attacks(t *testing.T, all map[string]attack) {
	for name, tt := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			if tt.ms == "" {
				tt.ms = "30000"
			}
			set := setOf(t, line("f", "", timed("x", tt.code, tt.ms)))
			for range 2 {
				p, err := r.Before(context.Background(), set, request(`{"a":1}`))
				switch {
				case tt.want == unchanged && err != nil:
					t.Fatal(err)
				case tt.want == unchanged && len(p.Args) > 0 && string(p.Args) != `{"a":1}`:
					t.Fatalf("it sends %s", p.Args)
				case tt.want != unchanged && (err == nil || !strings.Contains(err.Error(), tt.want)):
					t.Fatalf("%v, want %q", err, tt.want)
				case tt.want != unchanged && core.CodeOf(err) != core.CodeHookFailed && core.CodeOf(err) != core.CodeDenied:
					t.Fatalf("its code is %s", core.CodeOf(err))
				}
			}
			if records := text(r.runs()); strings.Contains(records, secret) || len(records) > 64<<10 {
				t.Errorf("the records are %d bytes: %.2000s", len(records), records)
			}
		})
	}
}

// What a script writes to the console is bounded in what is kept of it.
func TestRunner_ConsoleLarge(t *testing.T) {
	t.Parallel()
	skiptest.NoRace(t)
	r := newRig(t)
	set := setOf(t, line("f", "", timed("x", `for (let i = 0; i < 1e4; i++) console.log("`+secret+`\u001b[2J" + "x".repeat(1000))`, "30000")))
	if _, err := r.Before(context.Background(), set, request(`{}`)); err != nil {
		t.Fatal(err)
	}
	lines := r.runs()[0].Nodes[0].Console
	if len(lines) != 51 || len(lines[0]) > 1000 || strings.Contains(lines[0], secret) || strings.Contains(lines[0], "\x1b") {
		t.Errorf("%d lines, the first is %q", len(lines), lines[0])
	}
}

// A node that nobody waits for ends at its own time, whatever it does, and not with its
// call.
func TestRunner_BesideEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := besideOf("x", `for (;;);`, false)
	n.data += `,"timeoutMs":200`
	ctx, cancel := context.WithCancel(context.Background())
	if _, err := r.Before(ctx, setOf(t, line("f", "", n)), request(`{}`)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if x := r.runs()[0].Nodes[0]; x.State != core.FlowTimeout {
		t.Errorf("%+v", x)
	}
}

// A program that floods, never ends, ignores its end, does not read or leaves others
// behind is ended with all of them.
func TestRunner_ProgramAttacks(t *testing.T) {
	t.Parallel()
	needsShell(t)
	for name, tt := range map[string]struct {
		code, want string
		state      core.FlowState
	}{
		"Flood":      {`yes '{"decision":"approve"}'`, "more than 8 MiB", core.FlowFailed},
		"FloodWords": {`yes >&2`, "did not end within", core.FlowTimeout},
		"Never":      {`sleep 1000`, "did not end within", core.FlowTimeout},
		"Deaf":       {`trap '' TERM INT HUP; while :; do sleep 1; done`, "did not end within", core.FlowTimeout},
		"NotReading": {`exec <&-; exit 0`, "", core.FlowPending},
		"LeftBehind": {`sleep 1000 & exit 0`, "", core.FlowPending},
		"Forks":      {`for i in 1 2 3 4 5 6 7 8; do sleep 1000 & done; wait`, "did not end within", core.FlowTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, withPath)
			n := program("x", "exec 9>pipe; "+tt.code, false)
			n.data = strings.Replace(n.data, "20000", map[bool]string{true: "300", false: "20000"}[tt.state == core.FlowTimeout], 1)
			req := request(`{"text":"` + strings.Repeat("x", 1<<20) + `"}`)
			req.Workspace = t.TempDir()
			pipe, ended := filepath.Join(req.Workspace, "pipe"), make(chan error, 1)
			if out, err := exec.Command("mkfifo", pipe).CombinedOutput(); err != nil {
				t.Skipf("no named pipes here: %s", out)
			}
			go func() {
				_, err := os.ReadFile(pipe)
				ended <- err
			}()
			_, err := r.Before(context.Background(), setOf(t, line("f", "", n)), req)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if run := r.runs()[0]; run.State != tt.state {
				t.Errorf("the state is %s", run.State)
			}
			// The pipe ends when all have ended that the program has started. One that was
			// ended before it has opened the pipe must not leave its reader to wait.
			if w, err := os.OpenFile(pipe, os.O_RDWR, 0); err != nil || w.Close() != nil {
				t.Fatal("the pipe: ", err)
			}
			select {
			case <-ended:
			case <-time.After(3 * time.Minute):
				t.Error("something of it still runs")
			}
		})
	}
}
