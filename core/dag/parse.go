package dag

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/casys-ai/pml/core"
)

// Parse reads a DAG file: {"tasks": […], "input": …, "intent": …} or a bare
// array of tasks. It checks the shape only; Build checks what it means. All
// faults come in one *core.Error of core.CodeDAGInvalid, each with its JSON
// pointer and its line and column; the tasks come with them as far as they could
// be read. Arguments and input keep their bytes.
func Parse(data []byte) (Document, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	p := parser{data: data}
	if err := p.syntax(); err != nil {
		return Document{}, err
	}
	var doc Document
	root := p.trim(span{0, len(data)})
	switch data[root.start] {
	case '[':
		doc.Tasks = p.tasks(root, "")
	case '{':
		p.object(root, "", map[string]func(span, string){
			"tasks":  func(s span, path string) { doc.Tasks = p.tasks(s, path) },
			"input":  func(s span, _ string) { doc.Input = p.raw(s) },
			"intent": func(s span, path string) { p.into(s, path, "a string", &doc.Intent) },
		})
		if doc.Tasks == nil && len(p.faults) == 0 {
			p.fault(root, "", `there is no "tasks" array`)
		}
	default:
		p.fault(root, "", "a DAG is an object with tasks, or an array of tasks; this is %s", kindOf(data[root.start:]))
	}
	if len(p.faults) > 0 {
		prefix := "/tasks"
		if data[root.start] == '[' {
			prefix = ""
		}
		more, warnings := meaning(doc.Tasks, p.faults, prefix)
		e := invalid(append(p.faults, more...))
		e.Warnings = warnings
		return Document{Tasks: doc.Tasks}, e
	}
	return doc, nil
}

// meaning is what Build finds wrong beside faults of shape, so that both are
// told at once, and what it warns of. Of a task with a wrong shape only what stands in it
// is checked: that something is not there may follow from the shape. prefix is the path of
// the tasks.
func meaning(tasks []core.TaskSpec, shape []core.Fault, prefix string) ([]core.Fault, []core.PlanNote) {
	var e *core.Error
	if len(tasks) == 0 {
		return nil, nil
	}
	g, err := Build(tasks, nil)
	if !errors.As(err, &e) {
		return nil, g.Warnings()
	}
	wrong := map[string]bool{}
	for _, f := range shape {
		wrong[f.Path] = true
		wrong[taskPath(f.Path, prefix)] = true
	}
	var out []core.Fault
	for _, f := range e.Faults {
		f.Path = prefix + strings.TrimPrefix(f.Path, "/tasks")
		task := taskPath(f.Path, prefix)
		part, _, _ := strings.Cut(strings.TrimPrefix(f.Path, task+"/"), "/")
		if !wrong[f.Path] && (!wrong[task] || part == "depends_on" || part == "arguments" || part == "timeout_ms") {
			out = append(out, f)
		}
	}
	return out, e.Warnings
}

// taskPath is the beginning of a fault's path that names the task.
func taskPath(path, prefix string) string {
	index, _, _ := strings.Cut(strings.TrimPrefix(path, prefix+"/"), "/")
	return prefix + "/" + index
}

// parser reads valid JSON and remembers where things stand.
type parser struct {
	data   []byte
	faults []core.Fault
	// The last position that was worked out: faults come in text order, so the
	// next one counts on from there.
	lastOff int
	last    core.Position
}

// syntax reports text that is not JSON, with the place.
func (p *parser) syntax() *core.Error {
	var v json.RawMessage
	err := json.Unmarshal(p.data, &v)
	if err == nil {
		return nil
	}
	at, msg := len(p.data), err.Error()
	if syn, ok := errors.AsType[*json.SyntaxError](err); ok {
		at = max(0, int(syn.Offset)-1)
	}
	if at < len(p.data) && (p.data[at] == ']' || p.data[at] == '}') {
		if k := lastToken(p.data[:at]); k >= 0 && p.data[k] == ',' {
			at, msg = k, "a comma before the closing bracket is not allowed"
		}
	}
	if len(bytes.TrimSpace(p.data)) == 0 {
		at, msg = 0, "it is empty"
	}
	pos := p.position(at)
	e := core.Errorf(core.CodeDAGInvalid, "the DAG is not valid JSON; nothing has run")
	e.Location = &pos
	e.Faults = []core.Fault{{At: &pos, Message: msg}}
	return e
}

// lastToken returns the offset of the last byte that is no space.
func lastToken(b []byte) int { return len(bytes.TrimRight(b, " \t\r\n")) - 1 }

func (p *parser) trim(s span) span {
	s.start = core.SkipSpace(p.data, s.start)
	s.end = core.ValueEnd(p.data, s.start)
	return s
}

func (p *parser) raw(s span) json.RawMessage { return json.RawMessage(p.data[s.start:s.end]) }

// position counts lines and characters from 1.
func (p *parser) position(off int) core.Position {
	off = min(off, len(p.data))
	from, pos := p.lastOff, p.last
	if off < from || pos.Line == 0 {
		from, pos = 0, core.Position{Line: 1, Column: 1}
	}
	text := p.data[from:off]
	if n := bytes.Count(text, []byte("\n")); n > 0 {
		pos.Line += n
		pos.Column = 1
		text = text[bytes.LastIndexByte(text, '\n')+1:]
	}
	pos.Column += utf8.RuneCount(text)
	p.lastOff, p.last = off, pos
	return pos
}

func (p *parser) fault(s span, path, format string, args ...any) {
	pos := p.position(s.start)
	p.faults = append(p.faults, core.Fault{Path: path, At: &pos, Message: fmt.Sprintf(format, args...)})
}

// object reads an object, calling a function for each key that it knows.
func (p *parser) object(s span, path string, fields map[string]func(span, string)) {
	if p.data[s.start] != '{' {
		p.fault(s, path, "expected an object, got %s", kindOf(p.raw(s)))
		return
	}
	seen := map[string]bool{}
	for i := core.SkipSpace(p.data, s.start+1); i < s.end && p.data[i] != '}'; {
		k := span{i, core.StringEnd(p.data, i)}
		var key string
		if json.Unmarshal(p.raw(k), &key) != nil {
			return // cannot be: the text is valid JSON
		}
		v := p.trim(span{start: core.SkipSpace(p.data, k.end) + 1})
		read, ok := fields[key]
		switch {
		case !ok:
			p.fault(k, path+"/"+pointer(key), "unknown key %s%s", quote(key), p.suggest(key, fields))
		case seen[key]:
			p.fault(k, path+"/"+pointer(key), "the key %s is there twice", quote(key))
		default:
			read(v, path+"/"+pointer(key))
		}
		seen[key] = true
		if i = core.SkipSpace(p.data, v.end); i < s.end && p.data[i] == ',' {
			i = core.SkipSpace(p.data, i+1)
		}
	}
}

// otherWords are the keys that people write who know other formats of task graphs.
var otherWords = map[string]string{
	"args": "arguments", "params": "arguments", "parameters": "arguments", "input": "arguments", "with": "arguments",
	"needs": "depends_on", "deps": "depends_on", "after": "depends_on", "requires": "depends_on",
}

func (p *parser) suggest(key string, fields map[string]func(span, string)) string {
	if len(p.faults) >= maxSuggested || len(key) > 100 {
		return ""
	}
	if meant := otherWords[key]; fields[meant] != nil {
		return " (did you mean " + meant + "?)"
	}
	var names []string
	for name := range fields {
		if name != "dependsOn" {
			names = append(names, name)
		}
	}
	return core.Suggest(key, names)
}

// elements calls a function for each element of an array.
func (p *parser) elements(s span, path string, read func(i int, v span, path string)) {
	if p.data[s.start] != '[' {
		p.fault(s, path, "expected an array, got %s", kindOf(p.raw(s)))
		return
	}
	n := 0
	for i := core.SkipSpace(p.data, s.start+1); i < s.end && p.data[i] != ']'; n++ {
		v := p.trim(span{start: i})
		read(n, v, fmt.Sprintf("%s/%d", path, n))
		if i = core.SkipSpace(p.data, v.end); i < s.end && p.data[i] == ',' {
			i = core.SkipSpace(p.data, i+1)
		}
	}
}

func (p *parser) tasks(s span, path string) []core.TaskSpec {
	tasks := []core.TaskSpec{}
	p.elements(s, path, func(_ int, v span, path string) {
		tasks = append(tasks, p.task(v, path))
	})
	return tasks
}

func (p *parser) task(s span, path string) core.TaskSpec {
	var t core.TaskSpec
	named := ""
	deps := func(key string) func(span, string) {
		return func(v span, path string) {
			if named != "" {
				p.fault(v, path, "the task has both %s and %s; keep one", named, key)
				return
			}
			named = key
			p.elements(v, path, func(_ int, v span, path string) {
				var id string
				p.into(v, path, "a string", &id)
				t.DependsOn = append(t.DependsOn, id)
			})
		}
	}
	p.object(s, path, map[string]func(span, string){
		"id":           func(v span, path string) { p.into(v, path, "a string", &t.ID) },
		"tool":         func(v span, path string) { p.into(v, path, "a string", &t.Tool) },
		"arguments":    func(v span, _ string) { t.Arguments = p.raw(v) },
		"depends_on":   deps("depends_on"),
		"dependsOn":    deps("dependsOn"),
		"type":         func(v span, path string) { p.into(v, path, "a string", &t.Type) },
		"code":         func(v span, path string) { p.into(v, path, "a string", &t.Code) },
		"timeout_ms":   func(v span, path string) { p.into(v, path, "a whole number", &t.TimeoutMS) },
		"safe_to_fail": func(v span, path string) { p.into(v, path, "true or false", &t.SafeToFail) },
		"side_effects": func(v span, path string) { p.into(v, path, "true or false", &t.SideEffects) },
		"when":         func(v span, path string) { p.into(v, path, "a string", &t.When) },
		"retry": func(v span, path string) {
			t.Retry = &core.Retry{}
			p.object(v, path, map[string]func(span, string){
				"max_attempts": func(v span, path string) { p.into(v, path, "a whole number", &t.Retry.MaxAttempts) },
				"backoff_ms":   func(v span, path string) { p.into(v, path, "a whole number", &t.Retry.BackoffMS) },
			})
		},
	})
	return t
}

// into decodes a scalar; want says what it has to be.
func (p *parser) into(s span, path, want string, to any) {
	raw := p.raw(s)
	if string(raw) == "null" || json.Unmarshal(raw, to) != nil {
		got := kindOf(raw)
		if got == "a number" {
			got = core.Visible(string(raw), 40, false)
		}
		p.fault(s, path, "expected %s, got %s", want, got)
	}
}

// pointer escapes a key for a JSON pointer.
func pointer(key string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(core.Visible(key, 120, false))
}
