package sandbox

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/casys-ai/pml/core"
)

// frame is one line of a stack: a function of the script and a place in it.
type frame struct {
	name string
	at   core.Position
}

// frameLine is how the engine writes a frame of code, as against a native one.
var frameLine = regexp.MustCompile(`^\s*at (.*?) ?\(?<eval>:(\d+):(\d+)\)?$`)

// userFrames returns up to n frames of the script itself, innermost first, in
// positions of the body (the wrapper's line is taken off).
func userFrames(stack string, n int) []frame {
	var out []frame
	for line := range strings.SplitSeq(stack, "\n") {
		if len(out) == n {
			break
		}
		if !strings.Contains(line, "<eval>") {
			continue
		}
		m := frameLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		l, _ := strconv.Atoi(m[2])
		c, _ := strconv.Atoi(m[3])
		if l < 2 {
			continue
		}
		out = append(out, frame{name: m[1], at: core.Position{Line: l - 1, Column: c}})
	}
	return out
}

// source maps a position of the script to the user's source.
func (v *jsVM) source(p core.Position) core.Position {
	if v.sm == nil {
		v.sm = newSourceMap(v.mappings)
		if v.mappings == "" {
			v.sm = &sourceMap{}
		}
	}
	return v.sm.toSource(p)
}

// throwsNull finds scripts that throw null themselves.
var throwsNull = regexp.MustCompile(`\bthrow\s+null\b|\breject\w*\s*\(\s*null\b`)

// isOutOfMemory reports whether an error of the engine's own says that memory has run out.
// Where there is room for the error and none for its message, that is empty.
func isOutOfMemory(name, message string) bool {
	return name == "InternalError" && (message == "out of memory" || message == "")
}

// scriptError makes an error of what the bootstrap says of a thrown value:
// name, message, stack, code, tool, whether it is one of the engine's own errors,
// and whether the call may go well later. fatal says that a limit was hit.
func (v *jsVM) scriptError(args []any) (e *core.Error, fatal bool) {
	name, message, stack, code, tool := str(args, 0), str(args, 1), str(args, 2), str(args, 3), str(args, 4)
	if internal, _ := args[5].(bool); internal && isOutOfMemory(name, message) {
		return v.outOfMemory(), true
	}
	if name == "" && message == "null" && !throwsNull.MatchString(v.body) {
		// Where there is no room for an error object the engine throws null.
		return core.Errorf(core.CodeSandboxMemory, "the script threw null, which is what is left when memory runs out (the limit is %d MiB): work on smaller pieces", v.limits.MemoryBytes>>20), true
	}
	e = &core.Error{Code: core.CodeScript}
	e.Retryable, _ = args[6].(bool)
	switch {
	case tool != "":
		e.Code, e.Message = core.Code(code), tool+": "+message
	case code != "":
		e.Code, e.Message = core.Code(code), message
	case name == "":
		e.Message = "The script threw " + message
	case message == "":
		e.Message = name
	default:
		e.Message = name + ": " + message + hint(name, message)
	}
	if len(e.Message) > 64<<10 {
		e.Message = strings.ToValidUTF8(e.Message[:64<<10], "") + "…"
	}
	v.place(e, stack)
	return e, false
}

// place gives an error its place and stack in the user's source.
func (v *jsVM) place(e *core.Error, stack string) {
	frames := userFrames(stack, 20)
	var b strings.Builder
	for i, f := range frames {
		at := v.source(f.at)
		if at.Line == 0 {
			continue
		}
		if e.Location == nil {
			e.Location = &at
		}
		name := f.name
		if i == len(frames)-1 && (name == "" || name == "<anonymous>") {
			name = "main"
		}
		if len(name) > 200 {
			name = strings.ToValidUTF8(name[:200], "") + "…"
		}
		fmt.Fprintf(&b, "at %s (%d:%d)\n", name, at.Line, at.Column)
	}
	e.Stack = strings.TrimSuffix(b.String(), "\n")
}

var notDefined = regexp.MustCompile(`^'?([A-Za-z_$][\w$]*)'? is not defined$`)

// ofIntl is what globalThis.Intl.NumberFormat says, which is not a name that is missing.
var ofIntl = regexp.MustCompile(`^cannot read property '(Collator|DateTimeFormat|DisplayNames|DurationFormat|ListFormat|Locale|NumberFormat|PluralRules|RelativeTimeFormat|Segmenter|supportedValuesOf|getCanonicalLocales)' of undefined$`)

// instead says what to use for a name that scripts know from elsewhere.
var instead = map[string]string{
	"fetch": "there is no network here; use a tool, as in await mcp.server.tool({…})", "XMLHttpRequest": "there is no network here; use a tool, as in await mcp.server.tool({…})",
	"WebSocket": "there is no network here; use a tool, as in await mcp.server.tool({…})", "axios": "there is no network here; use a tool, as in await mcp.server.tool({…})",
	"require": "there are no modules here; use a tool, as in await mcp.server.tool({…})", "module": "there are no modules here; hand values back with return",
	"exports": "there are no modules here; hand values back with return",
	"process": "there is no process here; what the script needs comes in input", "Buffer": "use TextEncoder, TextDecoder, atob and btoa",
	"fs": "there are no files here; use a tool, as in await mcp.workspace.read_file({path})", "path": "there are no modules here; build the path with a template string",
	"Deno": "there is no runtime here; use tools, as in await mcp.server.tool({…})", "Bun": "there is no runtime here; use tools, as in await mcp.server.tool({…})",
	"window": "there is no browser here; globals are on globalThis", "document": "there is no browser here; return the value instead", "global": "globals are on globalThis",
	"self": "globals are on globalThis", "localStorage": "nothing is kept between runs; return the value or store it with a tool",
	"setInterval": "use a loop with await new Promise(r => setTimeout(r, ms))", "clearInterval": "use a loop with await new Promise(r => setTimeout(r, ms))",
	"setImmediate": "use queueMicrotask or setTimeout", "alert": "use console.log", "prompt": "what the script needs comes in input",
	"performance": "use Date.now(), which is the time of the last result", "Atomics": "a script has one thread", "SharedArrayBuffer": "a script has one thread; use ArrayBuffer",
	"WeakRef": "use a plain reference or a WeakMap", "FinalizationRegistry": "use try/finally",
	"Intl":     "a script has no language and no time zone: use toISOString, toFixed and localeCompare, or a tool",
	"Temporal": "use Date", "mcp": "tools cannot be called here", "setTimeout": "this code cannot wait; give the task a timeout or retry instead",
}

// hint adds what to use instead of a global that does not exist here.
func hint(name, message string) string {
	if name == "TypeError" && ofIntl.MatchString(message) {
		return " (there is no Intl: " + instead["Intl"] + ")"
	}
	if name == "ReferenceError" {
		if m := notDefined.FindStringSubmatch(message); m != nil && instead[m[1]] != "" {
			return " (" + instead[m[1]] + ")"
		}
		if strings.HasPrefix(message, "could not load module") {
			return " (there are no modules here; use a tool, as in await mcp.server.tool({…}))"
		}
	}
	return ""
}
