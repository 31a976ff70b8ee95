package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// What is read at most. Code is small by contract; a DAG of 10,000 tasks fits.
const (
	maxCode = 100 << 10
	maxFile = 64 << 20
)

// program is what execute and plan were given to run.
type program struct {
	file string // for messages
	code string
	// dag is a DAG in JSON; places finds the line of a value in the file.
	dag    []byte
	places places
	yaml   bool // dag was made from YAML: its positions are not the file's
}

// source says where a program comes from: exactly one of the two.
type source struct {
	file    string // a path, or - for standard input
	code    string
	codeSet bool
}

func (s source) check(cmd string) error {
	switch {
	case s.codeSet && s.file != "":
		return usagef("give either a file or --code, not both")
	case !s.codeSet && s.file == "":
		return usagef("nothing to run: name a FILE, - for standard input, or --code STRING").WithNext("pml", cmd, "--help")
	}
	return nil
}

// readProgram reads a program and finds out what it is. All that can be known
// to be wrong without a backend is found here.
func (a *app) readProgram(s source) (program, error) {
	if s.codeSet {
		return codeProgram("", []byte(s.code))
	}
	name := s.file
	data, err := a.readInput(name)
	if err != nil {
		return program{}, err
	}
	if name == "-" {
		name = "stdin"
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if err := checkText(name, data); err != nil {
		return program{}, err
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
func guessProgram(name string, data []byte) (program, error) {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) && json.Valid(data) {
		return jsonProgram(name, data), nil
	}
	if bytes.Contains(data, []byte("tasks")) {
		if doc, err := parseYAML(data); err == nil && doc.hasTasks() {
			return program{file: name, dag: doc.json, places: doc.places, yaml: true}, nil
		}
	}
	return codeProgram(name, data)
}

func codeProgram(name string, data []byte) (program, error) {
	label := name
	if label == "" {
		label = "--code"
	}
	switch {
	case len(bytes.TrimSpace(data)) == 0:
		return program{}, core.Errorf(core.CodeEmptyCode, "%s is empty: there is no code to run", label)
	case len(data) > maxCode:
		return program{}, core.Errorf(core.CodeTooLarge, "%s is %d bytes of code; the limit is %d (100 KiB)", label, len(data), maxCode)
	}
	if err := checkText(label, data); err != nil {
		return program{}, err
	}
	return program{file: name, code: string(data)}, nil
}

func jsonProgram(name string, data []byte) program {
	return program{file: name, dag: data, places: jsonPlaces(data)}
}

func yamlProgram(name string, data []byte) (program, error) {
	doc, err := parseYAML(data)
	if err != nil {
		return program{}, inFile(err, name, nil)
	}
	return program{file: name, dag: doc.json, places: doc.places, yaml: true}, nil
}

// checkText refuses binary files before anything tries to read them as code.
func checkText(name string, data []byte) error {
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return usagef("%s is a binary file (a NUL byte at offset %d), neither code nor a DAG", name, i)
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
	return usagef("%s is not UTF-8 text (byte 0x%02x at %d:%d); save it as UTF-8", name, data[off], p.Line, p.Column)
}

// readInput reads a file, or standard input for "-".
func (a *app) readInput(name string) ([]byte, error) {
	if name == "-" {
		data, err := io.ReadAll(io.LimitReader(a.stdin, maxFile+1))
		if err != nil {
			return nil, usagef("cannot read standard input: %w", err)
		}
		return limitFile("standard input", data)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, openError(name, err)
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.IsDir() {
		return nil, usagef("%s is a folder, not a file", name)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, usagef("cannot read %s: %w", name, err)
	}
	return limitFile(name, data)
}

func limitFile(name string, data []byte) ([]byte, error) {
	if len(data) > maxFile {
		return nil, core.Errorf(core.CodeTooLarge, "%s is larger than %d MiB", name, maxFile>>20)
	}
	return data, nil
}

func openError(name string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return usagef("cannot open %s: %w", core.Visible(name, 200, false), err)
	}
	var names []string
	if entries, derr := os.ReadDir(filepath.Dir(name)); derr == nil {
		for _, e := range entries {
			names = append(names, e.Name())
		}
	}
	return usagef("no such file: %s%s", core.Visible(name, 200, false), core.Suggest(filepath.Base(name), names))
}

// request makes the request of a program. tasks come from the backend, which
// is opened by then; input overrides the DAG's own.
func (p program) request(b Programs, input json.RawMessage) (api.ExecuteRequest, error) {
	req := api.ExecuteRequest{File: p.file, Code: p.code}
	req.Input = input
	if p.dag == nil {
		return req, nil
	}
	tasks, own, err := b.ParseDAG(p.dag)
	if err != nil {
		if p.yaml {
			err = unplaced(err)
		}
		return req, inFile(err, p.file, p.places)
	}
	req.Tasks = tasks
	if len(input) == 0 {
		req.Input = own
	}
	return req, nil
}

// inFile gives the faults of an error their file and, by their JSON pointer,
// their line and column.
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
	if errors.As(err, &failedRun{}) {
		return failedRun{&c}
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

// readJSON reads a JSON value of a flag: inline, or from @FILE.
func (a *app) readJSON(flag, text string) (json.RawMessage, error) {
	data := []byte(text)
	label := "--" + flag
	if name, ok := strings.CutPrefix(text, "@"); ok {
		var err error
		if data, err = a.readInput(name); err != nil {
			return nil, err
		}
		label += " " + text
	}
	var v json.RawMessage
	if err := json.Unmarshal(data, &v); err != nil {
		var se *json.SyntaxError
		if errors.As(err, &se) {
			p := positionAt(data, max(0, int(se.Offset)-1))
			return nil, usagef("%s is not JSON at %d:%d: %w", label, p.Line, p.Column, err)
		}
		return nil, usagef("%s is not JSON: %w", label, err)
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
