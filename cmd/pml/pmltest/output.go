//go:build unix

package pmltest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// Output is what a pml came to.
type Output struct {
	t      testing.TB
	Args   []string
	Exit   int
	Stdout string
	Stderr string
}

// Want wants an exit code.
func (o Output) Want(code int) Output {
	o.t.Helper()
	if o.Exit != code {
		o.t.Fatalf("pml %s: exit %d, want %d\nstdout: %s\nstderr: %s", strings.Join(o.Args, " "), o.Exit, code, o.Stdout, o.Stderr)
	}
	return o
}

// Decode reads stdout as JSON.
func (o Output) Decode(v any) {
	o.t.Helper()
	if err := json.Unmarshal([]byte(o.Stdout), v); err != nil {
		o.t.Fatalf("pml %s: stdout is not JSON: %v\nstdout: %s\nstderr: %s", strings.Join(o.Args, " "), err, o.Stdout, o.Stderr)
	}
}

// Result reads stdout as a result.
func (o Output) Result() api.Result {
	o.t.Helper()
	var r api.Result
	o.Decode(&r)
	return r
}

// Fault is the error object that JSON output puts on stderr.
type Fault struct {
	Code      core.Code       `json:"code"`
	Message   string          `json:"message"`
	Exit      int             `json:"exit"`
	Next      []string        `json:"next"`
	DecidedBy *core.DecidedBy `json:"decided_by"`
}

// Fault reads the error of a command with --json: the last object on stderr.
func (o Output) Fault() Fault {
	o.t.Helper()
	var v struct {
		Error Fault `json:"error"`
	}
	text := o.Stderr
	if i := strings.LastIndex(text, "{\"error\""); i >= 0 {
		text = text[i:]
	} else if i := strings.LastIndex(text, "{\n"); i >= 0 {
		text = text[strings.Index(text, "{\n"):]
	}
	if err := json.NewDecoder(strings.NewReader(text)).Decode(&v); err != nil || v.Error.Code == "" {
		o.t.Fatalf("pml %s: no error object on stderr: %v\n%s", strings.Join(o.Args, " "), err, o.Stderr)
	}
	return v.Error
}
