package upstream

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/casys-ai/pml/core"
)

const (
	// maxSchemas bounds the cache; a full one starts again.
	maxSchemas = 4096
	maxFaults  = 50
)

// schemaCache keeps compiled schemas by the digest of their text; nil stands
// for one that does not compile. The zero value is ready.
type schemaCache struct {
	mu      sync.Mutex
	schemas map[[sha256.Size]byte]*jsonschema.Schema
}

// Check validates arguments against a tool's input schema. What is wrong comes
// as one core.CodeInvalidArguments that names each place. A schema that
// does not compile is ignored with a warning: the server checks too, and a bad
// schema must not make its tool unusable.
func (m *Manager) Check(tool core.Tool, args json.RawMessage) error {
	args, err := objectArgs(args)
	if err != nil {
		return err
	}
	wrong, err := m.mismatch(tool, "input", tool.InputSchema, args)
	switch {
	case err != nil:
		return core.Errorf(core.CodeInvalidArguments, "the arguments of %s %w", tool.ID(), err)
	case wrong != "":
		return core.Errorf(core.CodeInvalidArguments, "the arguments of %s do not match its input schema: %s", tool.ID(), wrong)
	}
	return nil
}

// ResultFault says in what a result (an MCP CallToolResult) does not match the output
// schema of its tool; it is empty where it does, or where nothing is to be checked: a
// failed result has no schema. With needed a result without structuredContent does not
// match one either.
func (m *Manager) ResultFault(tool core.Tool, result json.RawMessage, needed bool) string {
	r, err := readResult(result)
	switch {
	case err != nil:
		return "is not an MCP result: " + err.Error()
	case r.IsError || len(tool.OutputSchema) == 0:
		return ""
	case !isStructured(r.Structured) && needed:
		return "has no structuredContent, which its output schema describes"
	case !isStructured(r.Structured):
		return ""
	}
	wrong, err := m.mismatch(tool, "output", tool.OutputSchema, r.Structured)
	switch {
	case err != nil:
		return err.Error()
	case wrong != "":
		return "does not match its output schema: " + wrong
	}
	return ""
}

// HasStructured reports whether a result has structuredContent.
func HasStructured(result json.RawMessage) bool {
	r, err := readResult(result)
	return err == nil && isStructured(r.Structured)
}

func isStructured(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) > 0 && !bytes.Equal(raw, core.Null)
}

// mismatch says what of a value does not match a schema of a tool and where, in one
// text: a script sees nothing but the message. It is empty where all does, and for a
// schema that cannot be used.
func (m *Manager) mismatch(tool core.Tool, which string, text, raw json.RawMessage) (string, error) {
	schema := m.schemas.get(text, func(err error) {
		m.log.Warn("the tool's "+which+" schema is ignored", "tool", tool.ID(), "err", err)
	})
	if schema == nil {
		return "", nil
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return "", fmt.Errorf("cannot be read as JSON: %w", err)
	}
	if number, ok := hugeNumber(value); ok {
		return "", fmt.Errorf("cannot be checked, a number is out of range: %s", core.Visible(number, 40, false))
	}
	var invalid *jsonschema.ValidationError
	if err := schema.Validate(value); errors.As(err, &invalid) {
		var said []string
		for _, f := range faults(invalid) {
			said = append(said, f.String())
		}
		return strings.Join(said, "; "), nil
	} else if err != nil {
		m.log.Warn("the tool's "+which+" schema cannot be used", "tool", tool.ID(), "err", err)
	}
	return "", nil
}

// faults are the leaves of a validation error, each once.
func faults(e *jsonschema.ValidationError) []core.Fault {
	var out []core.Fault
	seen := map[core.Fault]bool{}
	add := func(u jsonschema.OutputUnit) {
		if u.Error == nil || len(out) == maxFaults {
			return
		}
		f := core.Fault{Path: u.InstanceLocation, Message: core.Visible(u.Error.String(), 500, false)}
		if !seen[f] {
			seen[f] = true
			out = append(out, f)
		}
	}
	unit := e.BasicOutput()
	add(*unit)
	for _, u := range unit.Errors {
		add(u)
	}
	return out
}

func (c *schemaCache) get(text json.RawMessage, warn func(error)) *jsonschema.Schema {
	if len(text) == 0 {
		return nil
	}
	sum := sha256.Sum256(text)
	c.mu.Lock()
	schema, ok := c.schemas[sum]
	c.mu.Unlock()
	if ok {
		return schema
	}
	schema, err := compile(text)
	if err != nil {
		warn(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.schemas == nil || len(c.schemas) >= maxSchemas {
		c.schemas = map[[sha256.Size]byte]*jsonschema.Schema{}
	}
	c.schemas[sum] = schema
	return schema
}

func compile(text json.RawMessage) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	if number, ok := hugeNumber(doc); ok {
		return nil, errors.New("a number is out of range: " + core.Visible(number, 40, false))
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(lenientRegexp)
	const name = "pml:input"
	if err := c.AddResource(name, doc); err != nil {
		return nil, err
	}
	return c.Compile(name)
}

// noLoader refuses references that leave the schema: a server must not make
// pml read files or open addresses.
type noLoader struct{}

var errRemote = errors.New("references to other documents are not followed")

// Load implements jsonschema.URLLoader.
func (noLoader) Load(string) (any, error) { return nil, errRemote }

// lenientRegexp accepts patterns that Go's syntax does not have, such as look-
// ahead, and matches everything with them.
func lenientRegexp(pattern string) (jsonschema.Regexp, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return anything(pattern), nil //nolint:nilerr // the rest of the schema is still checked
	}
	return re, nil
}

type anything string

// String gives the expression as it is written.
func (a anything) String() string { return string(a) }

// MatchString implements jsonschema.Regexp: it always matches.
func (anything) MatchString(string) bool { return true }

// hugeNumber finds a number whose exponent would make exact arithmetic take
// memory without bound.
func hugeNumber(v any) (string, bool) {
	switch v := v.(type) {
	case json.Number:
		_, exp, ok := strings.Cut(strings.ToLower(string(v)), "e")
		if !ok {
			return string(v), len(v) > 10_000
		}
		n, err := strconv.Atoi(exp)
		return string(v), err != nil || n > 400 || n < -400
	case []any:
		for _, e := range v {
			if s, ok := hugeNumber(e); ok {
				return s, true
			}
		}
	case map[string]any:
		for _, e := range v {
			if s, ok := hugeNumber(e); ok {
				return s, true
			}
		}
	}
	return "", false
}
