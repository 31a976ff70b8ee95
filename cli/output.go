package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// The output formats.
const (
	formatTable = "table"
	formatWide  = "wide"
	formatJSON  = "json"
	formatJSONL = "jsonl"
	formatYAML  = "yaml"
)

var formats = []string{formatTable, formatWide, formatJSON, formatJSONL, formatYAML}

func (a *app) format() string {
	switch a.flags.output {
	case formatJSONL, formatYAML, formatJSON:
		return a.flags.output
	}
	if a.flags.json {
		return formatJSON
	}
	return a.flags.output
}

// human reports whether output is for reading, not for a program.
func (a *app) human() bool { return a.format() == formatTable || a.format() == formatWide }

// write sends text to standard output.
func (a *app) write(s string) error {
	if _, err := io.WriteString(a.Stdout, s); err != nil {
		return core.Errorf(core.CodeInternal, "cannot write the output: %w", err)
	}
	return nil
}

// print writes one value: in a format for programs as it is, else by human.
func (a *app) print(v any, human func(w *strings.Builder)) error {
	if a.human() {
		var b strings.Builder
		human(&b)
		return a.write(b.String())
	}
	return a.encode(v, a.format())
}

// encode writes one value as JSON or YAML.
func (a *app) encode(v any, format string) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if format == formatJSON {
		enc.SetIndent("", "  ")
	}
	if err := enc.Encode(v); err != nil {
		return core.Errorf(core.CodeInternal, "cannot encode the output: %w", err)
	}
	out := b.String()
	if format == formatYAML {
		y, err := yamlOf(b.Bytes())
		if err != nil {
			return err
		}
		out = y
	}
	return a.write(a.safeJSON(out))
}

// safeJSON escapes what a terminal would act upon or hide. Encoded text holds
// such runes inside strings only, where an escape means the same.
func (a *app) safeJSON(s string) string {
	if !a.StdoutTTY {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n' || r < 0x7f || core.Visible(string(r), 0, true) == string(r):
			b.WriteRune(r)
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// column is a column of a table over items of a type.
type column[T any] struct {
	title string
	wide  bool // with -o wide only
	get   func(T) string
}

// printList writes a list in any format. empty is what a person reads on
// stderr when there is nothing.
func printList[T any](a *app, page api.Page[T], empty string, cols []column[T]) error {
	page.Warnings = append(page.Warnings, a.warned()...)
	if a.human() || a.format() == formatJSONL { // elsewhere they are in the list itself
		for _, w := range page.Warnings {
			a.sayWarning(w)
		}
	}
	switch {
	case a.format() == formatJSONL:
		for _, it := range page.Items {
			if err := a.encode(it, formatJSONL); err != nil {
				return err
			}
		}
		return nil
	case !a.human():
		if page.Items == nil {
			page.Items = []T{}
		}
		return a.encode(page, a.format())
	case len(page.Items) == 0:
		a.note("%s", empty)
		return nil
	}
	if err := a.write(tableOf(a, page.Items, cols)); err != nil {
		return err
	}
	if page.Next != "" {
		a.note("more: add --cursor %s", shellQuote(page.Next))
	}
	return nil
}

// note tells a person something beside the result. Programs do not get it.
func (a *app) note(format string, args ...any) {
	if a.flags.quiet || !a.human() {
		return
	}
	a.progress.clear()
	fmt.Fprintf(a.Stderr, format+"\n", args...)
}

// printResult writes the value that a script returned: a string as it is,
// anything else as indented JSON, nothing when there is no result.
func (a *app) printResult(raw json.RawMessage) error {
	if len(raw) == 0 {
		return nil
	}
	var s string
	if raw[0] == '"' && json.Unmarshal(raw, &s) == nil {
		if a.StdoutTTY {
			s = core.Visible(s, 0, true)
		}
		return a.write(strings.TrimSuffix(s, "\n") + "\n")
	}
	return a.write(a.safeJSON(indent(raw)) + "\n")
}

// indent lays JSON out over lines; what is not JSON stays as it is.
func indent(raw json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return core.Visible(string(raw), 0, true)
	}
	return b.String()
}

// compact is JSON on one line, safe for a screen.
func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return core.Visible(string(raw), 0, false)
	}
	return core.Visible(b.String(), 0, false)
}
