package upstream

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
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
	schema := m.schemas.get(tool.InputSchema, func(err error) {
		m.log.Warn("the tool's input schema is ignored", "tool", tool.ID(), "err", err)
	})
	if schema == nil {
		return nil
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(args))
	if err != nil {
		return core.Errorf(core.CodeInvalidArguments, "the arguments of %s are not valid JSON: %w", tool.ID(), err)
	}
	if number, ok := hugeNumber(value); ok {
		return core.Errorf(core.CodeInvalidArguments, "the arguments of %s hold a number that is out of range: %s", tool.ID(), core.Visible(number, 40, false))
	}
	var invalid *jsonschema.ValidationError
	if err := schema.Validate(value); errors.As(err, &invalid) {
		return invalidArguments(tool, faults(invalid))
	} else if err != nil {
		m.log.Warn("the tool's input schema cannot be used", "tool", tool.ID(), "err", err)
	}
	return nil
}

// invalidArguments says in its message what is wrong where: a script sees
// nothing but the message.
func invalidArguments(tool core.Tool, faults []core.Fault) *core.Error {
	said := make([]string, len(faults))
	for i, f := range faults {
		said[i] = f.String()
	}
	return &core.Error{
		Code:    core.CodeInvalidArguments,
		Message: "the arguments of " + tool.ID() + " do not match its input schema: " + strings.Join(said, "; "),
	}
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
		return anything(pattern), nil //nolint:nilerr // the rest of the schema still counts
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
