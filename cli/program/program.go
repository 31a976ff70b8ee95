// Package program reads what is to be run: a script, or a DAG in JSON or YAML.
package program

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// maxCode is how much code is read at most: it is small by contract.
const maxCode = 100 << 10

// Program is what a command was given to run.
type Program struct {
	File string // for messages
	code string
	// dag is a DAG in JSON; places finds the line of a value in the file.
	dag    []byte
	places places
	yaml   bool // dag was made from YAML: its positions are not the file's
}

// Source says where a program comes from: exactly one of the two.
type Source struct {
	File    string // a path, or - for standard input
	Code    string
	CodeSet bool
}

// Check wants exactly one of the two; cmd is the command that wants it.
func (s Source) Check(cmd string) error {
	switch {
	case s.CodeSet && s.File != "":
		return app.Usagef("give either a file or --code, not both")
	case !s.CodeSet && s.File == "":
		return app.Usagef("nothing to run: name a FILE, - for standard input, or --code STRING").WithNext("pml", cmd, "--help")
	}
	return nil
}

// Read reads a program and finds out what it is. All that can be known
// to be wrong without a backend is found here.
func Read(ctx context.Context, a *app.App, s Source) (Program, error) {
	if s.CodeSet {
		return codeProgram("", []byte(s.Code))
	}
	name := s.File
	data, err := a.ReadInput(ctx, name)
	if err != nil {
		return Program{}, err
	}
	if name == "-" {
		name = "stdin"
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if err := checkText(name, data); err != nil {
		return Program{}, err
	}
	switch strings.ToLower(filepath.Ext(name)) {
	case ".json":
		return jsonProgram(name, data), nil
	case ".yaml", ".yml":
		return yamlProgram(name, data)
	case ".ts", ".js", ".mts", ".mjs":
		return codeProgram(name, data)
	}
	return guessProgram(name, data)
}

// guessProgram decides by content: an object that has tasks is a DAG.
func guessProgram(name string, data []byte) (Program, error) {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) && json.Valid(data) {
		return jsonProgram(name, data), nil
	}
	if bytes.Contains(data, []byte("tasks")) {
		if doc, err := parseYAML(data); err == nil && doc.hasTasks() {
			return Program{File: name, dag: doc.json, places: doc.places, yaml: true}, nil
		}
	}
	return codeProgram(name, data)
}

func codeProgram(name string, data []byte) (Program, error) {
	label := name
	if label == "" {
		label = "--code"
	}
	switch {
	case len(bytes.TrimSpace(data)) == 0:
		return Program{}, core.Errorf(core.CodeEmptyCode, "%s is empty: there is no code to run", label)
	case len(data) > maxCode:
		return Program{}, core.Errorf(core.CodeTooLarge, "%s is %d bytes of code; the limit is %d (100 KiB)", label, len(data), maxCode)
	}
	if err := checkText(label, data); err != nil {
		return Program{}, err
	}
	return Program{File: name, code: string(data)}, nil
}

func jsonProgram(name string, data []byte) Program {
	return Program{File: name, dag: data, places: jsonPlaces(data)}
}

func yamlProgram(name string, data []byte) (Program, error) {
	doc, err := parseYAML(data)
	if err != nil {
		return Program{}, inFile(err, name, nil)
	}
	return Program{File: name, dag: doc.json, places: doc.places, yaml: true}, nil
}

// checkText refuses binary files before anything tries to read them as code.
func checkText(name string, data []byte) error {
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return app.Usagef("%s is a binary file (a NUL byte at offset %d), neither code nor a DAG", name, i)
	}
	if utf8.Valid(data) {
		return nil
	}
	off := 0
	for off < len(data) {
		r, n := utf8.DecodeRune(data[off:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		off += n
	}
	p := positionAt(data, off)
	return app.Usagef("%s is not UTF-8 text (byte 0x%02x at %d:%d); save it as UTF-8", name, data[off], p.Line, p.Column)
}

// Request makes the request of a program. tasks come from the backend, which
// is opened by then; input overrides the DAG's own.
func (p Program) Request(b api.DAGs, input json.RawMessage) (api.ExecuteRequest, error) {
	req := api.ExecuteRequest{File: p.File, Code: p.code}
	req.Input = input
	if !p.IsDAG() {
		return req, nil
	}
	tasks, own, err := p.Tasks(b)
	if err != nil {
		return req, err
	}
	req.Tasks, req.Intent = tasks, p.intent()
	if len(input) == 0 {
		req.Input = own
	}
	return req, nil
}

// intent is what a DAG says of itself: what its run is called where nobody names it.
func (p Program) intent() string {
	var doc struct {
		Intent string `json:"intent"`
	}
	if json.Unmarshal(p.dag, &doc) != nil {
		return "" // a bare list of tasks
	}
	return doc.Intent
}

// IsDAG reports whether the program is a DAG, not code.
func (p Program) IsDAG() bool { return p.dag != nil }

// Tasks are the tasks and the input of a DAG.
func (p Program) Tasks(b api.DAGs) ([]core.TaskSpec, json.RawMessage, error) {
	tasks, input, err := b.ParseDAG(p.dag)
	if err != nil && p.yaml {
		err = unplaced(err)
	}
	return tasks, input, p.Locate(err)
}

// Locate gives the faults of an error about the program their file and, by their
// JSON pointer, their line and column.
func (p Program) Locate(err error) error { return inFile(err, p.File, p.places) }

func inFile(err error, file string, at places) error {
	var e *core.Error
	if file == "" || !errors.As(err, &e) {
		return err
	}
	c := *e
	c.Faults = make([]core.Fault, len(e.Faults))
	for i, f := range e.Faults {
		if f.File == "" {
			f.File = file
		}
		if f.At == nil && f.Path != "" && at != nil && f.File == file {
			f.At = at(f.Path)
		}
		c.Faults[i] = f
	}
	// In the order of the file, where it is known.
	slices.SortStableFunc(c.Faults, func(x, y core.Fault) int {
		if x.At == nil || y.At == nil || x.File != y.File {
			return 0
		}
		return cmp.Or(cmp.Compare(x.At.Line, y.At.Line), cmp.Compare(x.At.Column, y.At.Column))
	})
	if errors.As(err, &app.FailedRun{}) {
		return app.FailedRun{Err: &c}
	}
	return &c
}

// unplaced takes positions out of an error: they are of a text that the user
// has never seen.
func unplaced(err error) error {
	var e *core.Error
	if !errors.As(err, &e) {
		return err
	}
	c := *e
	c.Location = nil
	c.Faults = slices.Clone(e.Faults)
	for i := range c.Faults {
		c.Faults[i].At = nil
	}
	return &c
}

// ReadJSON reads a JSON value of a flag: inline, or from @FILE.
func ReadJSON(ctx context.Context, a *app.App, flag, text string) (json.RawMessage, error) {
	data := []byte(text)
	label := "--" + flag
	if name, ok := strings.CutPrefix(text, "@"); ok {
		var err error
		if data, err = a.ReadInput(ctx, name); err != nil {
			return nil, err
		}
		label += " " + text
	}
	var v json.RawMessage
	if err := json.Unmarshal(data, &v); err != nil {
		if se, ok := errors.AsType[*json.SyntaxError](err); ok {
			p := positionAt(data, max(0, int(se.Offset)-1))
			return nil, app.Usagef("%s is not JSON at %d:%d: %w", label, p.Line, p.Column, err)
		}
		return nil, app.Usagef("%s is not JSON: %w", label, err)
	}
	return bytes.TrimSpace(data), nil
}

// positionAt is the line and the column, in runes, of a byte of a text.
func positionAt(data []byte, off int) core.Position {
	off = min(off, len(data))
	line := 1 + bytes.Count(data[:off], []byte("\n"))
	start := bytes.LastIndexByte(data[:off], '\n') + 1
	return core.Position{Line: line, Column: 1 + utf8.RuneCount(data[start:off])}
}
