package sandbox

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/casys-ai/pml/core"
)

// The wrapper makes the code the body of a strict async function, so that
// await and return work at its top. It takes one line before the code, so that
// columns stay as they are.
const (
	wrapHead = "(async function () { \"use strict\";\n"
	wrapTail = "\n})"
)

// outputHead is what esbuild prints for wrapHead.
const outputHead = "(async function() {\n  \"use strict\";\n"

// strip turns TypeScript into the body that runs, and its map.
func strip(source, file string) (string, *sourceMap, error) {
	res := api.Transform(wrapHead+plainSource(source)+wrapTail, api.TransformOptions{
		Loader: api.LoaderTS, Target: api.ES2023, Charset: api.CharsetUTF8, LegalComments: api.LegalCommentsNone,
		Sourcemap: api.SourceMapExternal, SourcesContent: api.SourcesContentExclude, TreeShaking: api.TreeShakingFalse,
		Supported:  map[string]bool{"for-await": false}, // see closeLoops
		Define:     undeclared,
		Sourcefile: file, LogLevel: api.LogLevelSilent, TsconfigRaw: `{"compilerOptions":{"verbatimModuleSyntax":true}}`,
	})
	if len(res.Errors) > 0 {
		return "", nil, syntaxError(source, res.Errors)
	}
	helpers, code := cutHelpers(string(res.Code))
	body, ok := strings.CutPrefix(code, outputHead)
	end := strings.LastIndex(body, "})")
	if !ok || end < 0 {
		if strings.TrimSpace(code) == "(async function() {\n});" || strings.TrimSpace(code) == strings.TrimSpace(outputHead)+"\n});" {
			return "", nil, errEmpty()
		}
		return "", nil, core.Errorf(core.CodeInternal, "the code could not be taken out of its wrapper; please report it with the code")
	}
	body = body[:end]
	if strings.TrimSpace(body) == "" {
		return "", nil, errEmpty()
	}
	return helpers + keepTypeof(closeLoops(body)), bodyMap(res.Map, strings.Count(helpers, "\n")), nil
}

// missing is the object of the bootstrap that says what to use instead of a name.
// It is as long as globalThis: columns stay as they are.
const missing = "__pml_none"

// undeclared has esbuild write missing.NAME for a name that scripts know from
// elsewhere, where nothing of that name is declared.
var undeclared = func() map[string]string {
	out := map[string]string{}
	for name := range instead {
		if name != "mcp" && name != "setTimeout" { // which most scripts have
			out[name] = missing + "." + name
		}
	}
	return out
}()

var typeofMissing = regexp.MustCompile(`typeof ` + missing + `\.[A-Za-z]+`)

// keepTypeof lets scripts ask whether there is such a name: typeof fetch is no error.
func keepTypeof(body string) string {
	if !strings.Contains(body, "typeof "+missing) {
		return body
	}
	out := []byte(body)
	for _, at := range typeofMissing.FindAllStringIndex(body, -1) {
		if rest := body[at[1]:]; rest == "" || !strings.ContainsAny(rest[:1], ".([`") && !strings.HasPrefix(rest, "?.") {
			copy(out[at[0]+len("typeof "):], "globalThis")
		}
	}
	return string(out)
}

func errEmpty() *core.Error {
	return core.Errorf(core.CodeEmptyCode, "the code is empty: give it at least one statement")
}

// bodyMap shifts esbuild's map by the lines of the wrapper: two in the output,
// behind those of the helpers, and one in the input.
func bodyMap(raw []byte, helpers int) *sourceMap {
	var m struct {
		Mappings string `json:"mappings"`
	}
	if json.Unmarshal(raw, &m) != nil {
		return &sourceMap{}
	}
	lines := newSourceMap(m.Mappings).lines
	if len(lines) < helpers+2 {
		return &sourceMap{}
	}
	lines = slices.Delete(lines, helpers, helpers+2)
	for _, segs := range lines {
		for i := range segs {
			segs[i].srcLine = max(0, segs[i].srcLine-1)
		}
	}
	return &sourceMap{lines: lines}
}

// syntaxError reports all that esbuild found, the first in the message.
func syntaxError(source string, msgs []api.Message) *core.Error {
	lines := strings.Split(source, "\n")
	var e *core.Error
	for _, m := range msgs {
		var at *core.Position
		text := m.Text
		if m.Location != nil {
			at = clampPosition(lines, m.Location.Line-1, utf16Column(m.Location.LineText, m.Location.Column))
			text = explainSyntax(text, lines, at)
		}
		if e == nil {
			if openFence(lines) {
				text = "the code begins with a Markdown fence (```) that its last line does not close: give the code alone, or all of the block (" + text + ")"
			}
			e = core.Errorf(core.CodeSyntax, "%s", text)
			e.Location = at
			continue
		}
		e.Faults = append(e.Faults, core.Fault{At: at, Message: text})
	}
	return e
}

// clampPosition keeps an error at the wrapper's end inside the user's source.
func clampPosition(lines []string, line, col int) *core.Position {
	if line > len(lines) {
		line = len(lines)
		col = utf16Column(lines[line-1], len(lines[line-1]))
	}
	return &core.Position{Line: max(1, line), Column: col + 1}
}

// explainSyntax says what to write instead of module syntax, and names the
// end of the code where esbuild names the wrapper's brackets.
func explainSyntax(text string, lines []string, at *core.Position) string {
	line := strings.TrimSpace(lines[at.Line-1])
	first, _, _ := strings.Cut(line, " ")
	switch {
	case strings.HasPrefix(first, "import"):
		return "import is not available here: call tools as await mcp.server.tool({…}), everything else is built in"
	case strings.HasPrefix(first, "export"):
		return "export is not available here: hand a value back with return"
	case first == "namespace" || first == "module":
		return "a namespace cannot be declared here, because the code is the body of a function: use an object or a class"
	case (text == `Unexpected ")"` || text == `Unexpected "}"`) && at.Line == len(lines) && at.Column > utf16Column(lines[at.Line-1], len(lines[at.Line-1])), strings.HasPrefix(text, `Expected "}" but found ")"`):
		return "The code ends too early: a bracket is not closed"
	case strings.HasPrefix(text, `Expected ")" but found`):
		return "Unexpected text after a closing brace that was never opened"
	}
	return text
}

// utf16Column turns a byte offset in a line into UTF-16 units, the unit of
// columns in JavaScript and in editors.
func utf16Column(line string, bytes int) int {
	n := 0
	for i, r := range line {
		if i >= bytes {
			break
		}
		n++
		if r > 0xffff {
			n++
		}
	}
	return n
}
