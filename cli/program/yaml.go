package program

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/casys-ai/pml/core"
)

// places finds the place of a value in a file by its JSON pointer: that of the
// nearest parent when the value itself has none (a key that is missing).
type places func(pointer string) *core.Position

// yamlDoc is a YAML document as JSON. Number literals stay as they were
// written, so that no digit is lost on the way.
type yamlDoc struct {
	json   []byte
	places places
}

// Aliases may repeat a value; these bounds keep a few lines from becoming
// gigabytes, and a deep nesting from exhausting the stack.
const (
	maxYAMLAliased = 100_000 // values that come from aliases
	maxYAMLDepth   = 200
)

// parseYAML turns a YAML document into JSON.
func parseYAML(data []byte) (doc yamlDoc, err error) {
	// Foreign bytes go through a foreign parser: a panic in it is a file that
	// cannot be read, not the end of the process.
	defer func() {
		if p := recover(); p != nil {
			doc, err = yamlDoc{}, core.Errorf(core.CodeDAGInvalid, "the YAML cannot be read: the parser gave up (%v)", p)
		}
	}()
	root, err := yamlRoot(data)
	if err != nil {
		return yamlDoc{}, err
	}
	c := &yamlConverter{at: map[string]core.Position{}, anchors: map[string]ast.Node{}}
	c.value(root, "", 0)
	if len(c.faults) > 0 {
		return yamlDoc{}, &core.Error{Code: core.CodeDAGInvalid, Message: "the YAML cannot be read", Faults: c.faults}
	}
	return yamlDoc{json: c.out.Bytes(), places: c.place}, nil
}

// yamlRoot parses a text that holds exactly one document.
func yamlRoot(data []byte) (ast.Node, error) {
	if deepYAML(data) {
		return nil, core.Errorf(core.CodeDAGInvalid, "the YAML is nested more than %d deep", maxYAMLDepth)
	}
	if !bytes.HasSuffix(data, []byte("\n")) {
		// The parser does not fold a folded text that ends without one.
		data = append(bytes.Clone(data), '\n')
	}
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, yamlError(err)
	}
	var body ast.Node
	for _, d := range file.Docs {
		if d.Body == nil {
			continue
		}
		if body != nil {
			return nil, &core.Error{Code: core.CodeDAGInvalid, Message: "the YAML holds more than one document", Faults: []core.Fault{{
				At: tokenPos(d.Body.GetToken()), Message: "a second document begins here",
			}}}
		}
		body = d.Body
	}
	if body == nil {
		return nil, core.Errorf(core.CodeDAGInvalid, "the YAML is empty")
	}
	return body, nil
}

// deepYAML looks for nesting that the parser, which recurses, should not see:
// flow collections and, in block style, indicators in a row or indentation.
func deepYAML(data []byte) bool {
	depth, deepest := 0, 0
	for _, c := range data {
		switch c {
		case '[', '{':
			depth++
			deepest = max(deepest, depth)
		case ']', '}':
			depth--
		}
	}
	if deepest > maxYAMLDepth {
		return true
	}
	for line := range bytes.Lines(data) {
		if bytes.Count(line, []byte("- ")) > maxYAMLDepth || bytes.Count(line, []byte("? ")) > maxYAMLDepth {
			return true
		}
	}
	return false
}

func yamlError(err error) error {
	var se *yaml.SyntaxError
	if !errors.As(err, &se) {
		return core.Errorf(core.CodeDAGInvalid, "the YAML cannot be read: %w", err)
	}
	return &core.Error{Code: core.CodeDAGInvalid, Message: "the YAML cannot be read", Faults: []core.Fault{{
		At: tokenPos(se.Token), Message: se.Message,
	}}}
}

func tokenPos(t *token.Token) *core.Position {
	if t == nil || t.Position == nil {
		return nil
	}
	return &core.Position{Line: t.Position.Line, Column: t.Position.Column}
}

type yamlConverter struct {
	out     bytes.Buffer
	at      map[string]core.Position
	anchors map[string]ast.Node
	active  []ast.Node // aliases under expansion
	faults  []core.Fault
	aliased int // values written for aliases
	full    bool
}

func (c *yamlConverter) fault(n ast.Node, ptr, msg string) {
	if len(c.faults) < 50 {
		c.faults = append(c.faults, core.Fault{Path: ptr, At: tokenPos(n.GetToken()), Message: msg})
	}
	c.out.WriteString("null")
}

// note keeps the first place that a pointer is seen at. What comes from an
// alias is found at the alias.
func (c *yamlConverter) note(n ast.Node, ptr string) {
	if len(c.active) > 0 {
		return
	}
	if _, ok := c.at[ptr]; ok {
		return
	}
	if p := tokenPos(n.GetToken()); p != nil {
		c.at[ptr] = *p
	}
}

// place implements places.
func (c *yamlConverter) place(ptr string) *core.Position {
	for {
		if p, ok := c.at[ptr]; ok {
			return &p
		}
		i := strings.LastIndexByte(ptr, '/')
		if i < 0 {
			return nil
		}
		ptr = ptr[:i]
	}
}

// value writes a node as JSON and notes where it is.
func (c *yamlConverter) value(n ast.Node, ptr string, depth int) {
	if c.full {
		return
	}
	switch {
	case depth > maxYAMLDepth:
		c.full = true
		c.fault(n, ptr, "nested too deep")
		return
	case c.aliased > maxYAMLAliased:
		c.full = true
		c.fault(n, ptr, "the aliases make more than "+strconv.Itoa(maxYAMLAliased)+" values")
		return
	}
	c.note(n, ptr)
	if len(c.active) > 0 {
		c.aliased++
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		c.mapping(n.Values, ptr, depth)
	case *ast.MappingValueNode:
		c.mapping([]*ast.MappingValueNode{n}, ptr, depth)
	case *ast.SequenceNode:
		c.sequence(n, ptr, depth)
	case *ast.AnchorNode:
		c.anchors[n.Name.GetToken().Value] = n.Value
		c.value(n.Value, ptr, depth+1)
	case *ast.AliasNode:
		c.alias(n, ptr, depth)
	case *ast.TagNode:
		c.tag(n, ptr, depth)
	default:
		c.scalar(n, ptr)
	}
}

func (c *yamlConverter) scalar(n ast.Node, ptr string) {
	switch n := n.(type) {
	case *ast.NullNode:
		c.out.WriteString("null")
	case *ast.BoolNode:
		c.out.WriteString(strconv.FormatBool(n.Value))
	case *ast.IntegerNode:
		c.number(n, ptr, n.Token.Value, n.Value)
	case *ast.FloatNode:
		c.number(n, ptr, n.Token.Value, n.Value)
	case *ast.StringNode:
		c.plain(n)
	case *ast.LiteralNode:
		c.text(n.Value.Value)
	case *ast.InfinityNode, *ast.NanNode:
		c.fault(n, ptr, "JSON has no such number; write it as a string")
	default:
		c.fault(n, ptr, "this kind of YAML value is not supported here")
	}
}

// plain writes a scalar that the parser takes for a string. A number of more
// digits than a machine word holds is one of these, and a number all the same.
func (c *yamlConverter) plain(n *ast.StringNode) {
	var num json.Number
	if n.Token.Type == token.StringType && json.Unmarshal([]byte(n.Value), &num) == nil && num != "" {
		c.out.WriteString(strings.TrimSpace(n.Value))
		return
	}
	c.text(n.Value)
}

func (c *yamlConverter) text(s string) {
	raw, err := json.Marshal(s)
	if err != nil {
		raw = []byte(`""`)
	}
	c.out.Write(raw)
}

// number keeps the literal where JSON has it too; YAML's other notations
// (0x1f, 0o17, +1, .5, 1_000) are written in JSON's.
func (c *yamlConverter) number(n ast.Node, ptr, literal string, v any) {
	if json.Valid([]byte(literal)) && literal != "" {
		c.out.WriteString(literal)
		return
	}
	switch v := v.(type) {
	case int64:
		c.out.WriteString(strconv.FormatInt(v, 10))
	case uint64:
		c.out.WriteString(strconv.FormatUint(v, 10))
	case int:
		c.out.WriteString(strconv.Itoa(v))
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			c.fault(n, ptr, "JSON has no such number; write it as a string")
			return
		}
		c.out.WriteString(strconv.FormatFloat(v, 'g', -1, 64))
	default:
		c.fault(n, ptr, "this number cannot be read")
	}
}

func (c *yamlConverter) sequence(n *ast.SequenceNode, ptr string, depth int) {
	c.out.WriteByte('[')
	for i, v := range n.Values {
		if i > 0 {
			c.out.WriteByte(',')
		}
		c.value(v, ptr+"/"+strconv.Itoa(i), depth+1)
	}
	c.out.WriteByte(']')
}

func (c *yamlConverter) mapping(values []*ast.MappingValueNode, ptr string, depth int) {
	c.out.WriteByte('{')
	seen := map[string]bool{}
	first := true
	for _, v := range values {
		key, ok := c.key(v, ptr)
		if !ok {
			continue
		}
		if seen[key] {
			c.faults = append(c.faults, core.Fault{Path: ptr + "/" + escapePointer(key), At: tokenPos(v.Key.GetToken()), Message: "the key is there twice"})
			continue
		}
		seen[key] = true
		if !first {
			c.out.WriteByte(',')
		}
		first = false
		c.text(key)
		c.out.WriteByte(':')
		child := ptr + "/" + escapePointer(key)
		c.note(v.Key, child)
		c.value(v.Value, child, depth+1)
	}
	c.out.WriteByte('}')
}

// key is the text of a key; only scalars can be one.
func (c *yamlConverter) key(v *ast.MappingValueNode, ptr string) (string, bool) {
	switch k := v.Key.(type) {
	case *ast.StringNode:
		return k.Value, true
	case *ast.MergeKeyNode:
		c.faults = append(c.faults, core.Fault{Path: ptr, At: tokenPos(k.Token), Message: "merge keys (<<) are not supported; write the keys out"})
		return "", false
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		return v.Key.GetToken().Value, true
	}
	c.faults = append(c.faults, core.Fault{Path: ptr, At: tokenPos(v.Key.GetToken()), Message: "a key must be a plain text"})
	return "", false
}

func (c *yamlConverter) alias(n *ast.AliasNode, ptr string, depth int) {
	name := n.Value.GetToken().Value
	target, ok := c.anchors[name]
	if !ok {
		c.fault(n, ptr, "no anchor &"+core.Visible(name, 80, false)+" comes before this alias")
		return
	}
	if slices.Contains(c.active, target) {
		c.fault(n, ptr, "the alias *"+core.Visible(name, 80, false)+" contains itself")
		return
	}
	c.active = append(c.active, target)
	c.value(target, ptr, depth+1)
	c.active = c.active[:len(c.active)-1]
}

// tag accepts the tags that say what JSON can say.
func (c *yamlConverter) tag(n *ast.TagNode, ptr string, depth int) {
	switch n.Start.Value {
	case "!!str":
		if t := n.Value.GetToken(); t != nil {
			if s, ok := n.Value.(*ast.StringNode); ok {
				c.text(s.Value)
			} else if s, ok := n.Value.(*ast.LiteralNode); ok {
				c.text(s.Value.Value)
			} else {
				c.text(t.Value)
			}
			return
		}
	case "!!int", "!!float", "!!bool", "!!null", "!!map", "!!seq":
		c.value(n.Value, ptr, depth+1)
		return
	}
	c.fault(n, ptr, "the tag "+core.Visible(n.Start.Value, 80, false)+" is not supported")
}

// hasTasks reports whether the document is an object with a list of tasks.
func (d yamlDoc) hasTasks() bool {
	var o struct {
		Tasks []json.RawMessage `json:"tasks"`
	}
	return json.Unmarshal(d.json, &o) == nil && o.Tasks != nil
}

func escapePointer(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

// jsonPlaces finds places in a JSON file, which reads as YAML as well. The
// work is done on the first question only: there is none when all is right.
func jsonPlaces(data []byte) places {
	find := sync.OnceValue(func() places {
		if len(data) > 1<<20 {
			return func(string) *core.Position { return nil }
		}
		doc, err := parseYAML(data)
		if err != nil {
			return func(string) *core.Position { return nil }
		}
		return doc.places
	})
	bare := bytes.HasPrefix(bytes.TrimSpace(data), []byte("["))
	return func(ptr string) *core.Position {
		if bare { // an array of tasks, without the object around it
			ptr = strings.TrimPrefix(ptr, "/tasks")
		}
		return find()(ptr)
	}
}
