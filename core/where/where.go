// Package where compiles and evaluates the small conditions that permission rules and
// flows have on a call: `args.team == 'ENG' && size(args.body) < 2000`.
//
// The text is the syntax of Expr (expr-lang.org), whose parser reads it. What it means
// is decided here, because a condition that guards a call has to be stricter than Expr:
//
//   - A field that is not there is an error. `args?.x` is nil then, and `"x" in args` and
//     `has(args.x)` ask whether it is there.
//   - Values of two kinds are not equal by being unlike: comparing them is an error.
//     Anything can be compared with nil.
//   - Integers are compared exactly, of whatever size.
//   - There is no clock, nothing random and no input but the call.
//   - The work of one evaluation is bounded; an expression that needs more has failed.
//   - Regular expressions are those of RE2 and stand in the expression as they are.
//
// An error means that nobody knows whether the condition holds. Who asks must then take
// the careful answer: a call that a condition should let through is not let through,
// and one that it should stop is stopped.
package where

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/parser"

	"github.com/casys-ai/pml/core"
)

// The bounds of an expression and of one evaluation.
const (
	maxText  = 4000      // bytes of an expression
	maxNodes = 500       // of its syntax tree
	maxWork  = 1_000_000 // steps of one evaluation; about 0.2 s at the very worst
)

// Phase is when an expression is evaluated.
type Phase int

// The phases, named as MCP's interceptors name them.
const (
	Request  Phase = iota // before the call: there is no result
	Response              // after it
)

// Call is what an expression is about. Args and Result are JSON (json.RawMessage), or
// what Decode made of it, which saves time where several expressions see one call.
type Call struct {
	// Tool is the tool's name without that of its server.
	Tool, Server string
	// Args is read as an empty object where there are none.
	Args        any
	Annotations core.Annotations
	Client      string
	Owner       string
	Workspace   string // the absolute path of its folder
	Run         Run
	Result      any
}

// Run is the run that a call belongs to.
type Run struct {
	Name, Kind string
	Depth      int
}

// Expression is a compiled condition. It may be used by several goroutines at once.
type Expression struct {
	text        string
	eval        node
	annotations bool
}

// String is the expression as it was written.
func (e *Expression) String() string { return e.text }

// Compile reads an expression and checks its variables, fields, functions and kinds.
// The error is core.CodeInvalidConfig, and each of its faults has the place in the text.
func Compile(text string, phase Phase) (*Expression, error) {
	if err := checkText(text); err != nil {
		return nil, invalid([]core.Fault{{Message: err.Error()}})
	}
	config := conf.CreateNew()
	config.MaxNodes = maxNodes
	tree, err := parser.ParseWithConfig(text, config)
	if err != nil {
		return nil, invalid([]core.Fault{parseFault(err)})
	}
	c := compiler{text: text, phase: phase}
	whole := c.compile(tree.Node)
	c.want(whole, kindBool, tree.Node, "the condition")
	if len(c.faults) > 0 {
		return nil, invalid(c.faults)
	}
	return &Expression{text, whole.run, c.annotations}, nil
}

// UsesAnnotations reports whether the expression speaks of the tool's annotations.
func (e *Expression) UsesAnnotations() bool { return e.annotations }

// Eval says whether the condition holds for a call. The error is
// core.CodePermissionDenied and names the place in the expression; it never holds a
// value of the call, which may be secret.
func (e *Expression) Eval(call Call) (bool, error) {
	m := machine{call: &call}
	v, err := e.eval(&m)
	if err != nil {
		return false, err
	}
	holds, ok := v.(bool)
	if !ok {
		return false, core.Errorf(core.CodePermissionDenied, "the condition gives %s, not true or false", kindOf(v))
	}
	return holds, nil
}

// Decode reads JSON as expressions see it. Nothing at all is read as null. A member that
// an object has twice is an error: a server may take the other one.
func Decode(raw json.RawMessage) (any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	if core.CheckKeys("", raw) != nil {
		return nil, core.Errorf(core.CodePermissionDenied, "an object among the values of the call has a member twice")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, core.Errorf(core.CodePermissionDenied, "the values of the call are not valid JSON")
	}
	return v, nil
}

func checkText(text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return errors.New("the condition is empty")
	case len(text) > maxText:
		return fmt.Errorf("the condition has %d bytes; at most %d are allowed", len(text), maxText)
	case strings.ToValidUTF8(text, "") != text:
		return errors.New("the condition is not valid UTF-8")
	}
	for _, r := range text {
		if core.Hidden(r) && r != '\n' && r != '\t' {
			return errors.New("there is a control or invisible character in the condition")
		}
	}
	return nil
}

func invalid(faults []core.Fault) error {
	return &core.Error{Code: core.CodeInvalidConfig, Message: "the condition is not valid", Faults: faults}
}
