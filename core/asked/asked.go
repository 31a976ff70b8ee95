// Package asked lays out for a person what a call would send: texts with their line
// breaks, changes of files as differences, everything else key by key. Commands and
// the terminal show the same lines. It is pure, bounds what it lays out, and leaves
// nothing in a line that could act on a screen.
package asked

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
)

// Kind is what a line is.
type Kind int

// The kinds of line.
const (
	Plain   Kind = iota
	Added        // what the call adds to a file
	Removed      // what it takes out of one
	Place        // where in a file the next lines are
	Note         // pml's own words
)

// Line is one line: a label, which is empty in a line that goes on, and a text.
// Neither has anything in it that acts on a terminal.
type Line struct {
	Label string
	Text  string
	Kind  Kind
}

// What is laid out of one call at most. The arguments as JSON have the rest.
const (
	MaxLines = 2000
	maxWidth = 2000 // runes of a line
	maxDepth = 6    // of objects and lists, before they are JSON again
	maxLabel = 40
	inline   = 72 // bytes of a list that stands on one line
)

// Arguments lays out the arguments of a call. file is what the call would do to a
// file, nil where that is not known.
func Arguments(args json.RawMessage, file *File) []Line {
	b := &builder{}
	fields, ok := Fields(args)
	switch {
	case !ok:
		b.json("", args, 0)
	case len(fields) == 0:
		b.add("", "none", Note)
	default:
		if file != nil {
			fields = b.file(fields, *file)
		}
		b.fields(fields, 0)
	}
	return b.done()
}

// Raw lays out arguments as JSON, indented, and leaves nothing out.
func Raw(args json.RawMessage) []Line {
	b := &builder{unbounded: true}
	b.json("", args, 0)
	return b.done()
}

// builder gathers lines up to the bound, and counts the rest.
type builder struct {
	lines     []Line
	left      int // lines that did not fit
	unbounded bool
}

func (b *builder) add(label, text string, kind Kind) {
	width := maxWidth
	if b.unbounded {
		width = 0
	} else if len(b.lines) >= MaxLines {
		b.left++
		return
	}
	b.lines = append(b.lines, Line{Label: core.Visible(label, maxLabel, false), Text: Safe(text, width), Kind: kind})
}

func (b *builder) done() []Line {
	if b.left > 0 {
		b.lines = append(b.lines, Line{Text: fmt.Sprintf("… %d more lines are not laid out here; the arguments as JSON have all", b.left), Kind: Note})
	}
	return b.lines
}

// Safe is one line of foreign text as a screen may show it, cut to a number of
// runes (0: whole). A tab is four spaces wide.
func Safe(text string, width int) string {
	return core.Visible(strings.ReplaceAll(text, "\t", "    "), width, false)
}

// each calls f for the lines of a text that are still laid out, and counts the rest.
func (b *builder) each(text string, f func(line string)) {
	for text != "" {
		if !b.unbounded && len(b.lines) >= MaxLines {
			b.left += strings.Count(text, "\n")
			if !strings.HasSuffix(text, "\n") {
				b.left++
			}
			return
		}
		line, rest, _ := strings.Cut(text, "\n")
		f(line)
		text = rest
	}
}

// Field is one member of a JSON object.
type Field struct {
	Key   string
	Value json.RawMessage
}

// Fields returns the members of a JSON object in their order, a key that stands there
// twice twice; ok is false for any other value, and for an object that is broken.
func Fields(raw json.RawMessage) (list []Field, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return list, false
		}
		f := Field{}
		f.Key, _ = t.(string)
		if dec.Decode(&f.Value) != nil {
			return list, false
		}
		list = append(list, f)
	}
	return list, true
}

// fields lays the members of an object out under each other, their values aligned.
func (b *builder) fields(list []Field, depth int) {
	width := 0
	for _, f := range list {
		width = max(width, min(len(f.Key), 16))
	}
	pad := strings.Repeat("  ", depth)
	for _, f := range list {
		label := pad + fmt.Sprintf("%-*s", width, f.Key)
		b.value(label, f.Value, depth)
	}
}

// value lays out one value behind its label.
func (b *builder) value(label string, raw json.RawMessage, depth int) {
	raw = bytes.TrimSpace(raw)
	var text string
	switch {
	case len(raw) == 0:
		b.add(label, "", Plain)
	case raw[0] == '"' && json.Unmarshal(raw, &text) == nil:
		b.text(label, text, raw)
	case (raw[0] == '{' || raw[0] == '[') && depth >= maxDepth:
		b.add(label, compact(raw), Plain)
	case raw[0] == '{':
		fields, ok := Fields(raw)
		if !ok || len(fields) == 0 {
			b.add(label, compact(raw), Plain)
			return
		}
		b.add(label, "", Plain)
		b.fields(fields, depth+1)
	case raw[0] == '[':
		b.list(label, raw, depth)
	default:
		b.add(label, string(raw), Plain)
	}
}

// text lays out a text: one of several lines as a block, each line behind a bar that
// the text itself cannot leave. One that looks like something else than a text, and
// one that begins or ends with a space, stands in quotes.
func (b *builder) text(label, text string, raw json.RawMessage) {
	if !strings.Contains(text, "\n") {
		if plain := strings.TrimSpace(text) == text && text != "" && !strings.ContainsAny(text[:1], `"{[|`) && !json.Valid([]byte(text)); !plain {
			text = string(raw)
		}
		b.add(label, text, Plain)
		return
	}
	b.add(label, sizeOf(text), Note)
	b.block(text, "| ", Plain)
}

// block lays out the lines of a text behind a mark.
func (b *builder) block(text, mark string, kind Kind) {
	b.each(text, func(line string) { b.add("", mark+line, kind) })
	if text != "" && !strings.HasSuffix(text, "\n") && strings.Contains(text, "\n") {
		b.add("", "(no newline at the end)", Note)
	}
}

func sizeOf(text string) string {
	n := countLines(text)
	if n == 1 {
		return fmt.Sprintf("1 line, %d bytes", len(text))
	}
	return fmt.Sprintf("%d lines, %d bytes", n, len(text))
}

func countLines(text string) int {
	n := strings.Count(text, "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		n++
	}
	return n
}

// list lays out a list: on one line where it is short, else item by item.
func (b *builder) list(label string, raw json.RawMessage, depth int) {
	var items []json.RawMessage
	flat := compact(raw)
	simple := json.Unmarshal(raw, &items) != nil || len(items) == 0 ||
		len(flat) <= inline && !slices.ContainsFunc(items, func(i json.RawMessage) bool {
			return bytes.ContainsAny(i[:1], "{[") || bytes.Contains(i, []byte(`\n`))
		})
	if simple {
		b.add(label, flat, Plain)
		return
	}
	count := fmt.Sprintf("%d items", len(items))
	if len(items) == 1 {
		count = "1 item"
	}
	b.add(label, count, Note)
	pad := strings.Repeat("  ", depth+1)
	for i, item := range items {
		if !b.unbounded && len(b.lines) >= MaxLines {
			b.left += len(items) - i
			return
		}
		b.value(fmt.Sprintf("%s%d", pad, i+1), item, depth+1)
	}
}

func compact(raw json.RawMessage) string {
	var out bytes.Buffer
	if json.Compact(&out, raw) != nil {
		return string(raw)
	}
	return out.String()
}

// json lays out a value as indented JSON, and what is none as it is.
func (b *builder) json(label string, raw json.RawMessage, depth int) {
	var out bytes.Buffer
	text := string(raw)
	if json.Indent(&out, raw, strings.Repeat("  ", depth), "  ") == nil {
		text = out.String()
	}
	b.each(text, func(line string) {
		b.add(label, line, Plain)
		label = ""
	})
}
