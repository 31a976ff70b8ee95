package install

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/diff"
)

// changeWriter collects the lines of a DescribeChange.
type changeWriter struct{ lines []string }

// add adds one line; what is too long goes on in the next ones, so that nothing
// hides behind its end.
func (d *changeWriter) add(sign, text string) {
	runes := []rune(core.Visible(text, 0, false))
	for first := true; first || len(runes) > 0; first = false {
		n := min(len(runes), maxChangeRunes)
		d.lines = append(d.lines, sign+" "+string(runes[:n]))
		runes = runes[n:]
		if len(d.lines) > 2*maxChangeLines && len(runes) > 0 {
			d.lines = append(d.lines, fmt.Sprintf("%s … %d more characters", sign, len(runes)))
			return
		}
	}
}

func (d *changeWriter) hint(name string, old, now *bool) {
	said := func(b *bool) string {
		if b == nil {
			return "not given"
		}
		return strconv.FormatBool(*b)
	}
	if said(old) != said(now) {
		d.add("+", name+": "+said(old)+" → "+said(now))
	}
}

// text shows how a text changed: all of a new one, else the words that differ
// with some around them. Where only spaces differ, it draws the changed ones as
// dots, because two lines that look alike tell a reader nothing.
func (d *changeWriter) text(name, old, now string) {
	switch {
	case old == now:
	case old == "":
		d.add("+", name+": "+now)
	case now == "":
		d.add("-", name+": "+old)
	case slices.Equal(strings.Fields(old), strings.Fields(now)):
		d.add(" ", name+": only spaces differ (shown as ·)")
		d.hunks(dotted(diff.Compare(words(old), words(now))), 8, "", "  ")
	default:
		d.add(" ", name+":")
		d.hunks(diff.Compare(words(old), words(now)), 8, "", "  ")
	}
}

// dotted draws the spaces of the tokens that differ as dots.
func dotted(tokens []diff.Part) []diff.Part {
	for i, t := range tokens {
		if t.Sign != ' ' {
			tokens[i].Text = strings.ReplaceAll(t.Text, " ", "·")
		}
	}
	return tokens
}

// words splits a text into words with the space that follows each, so that a
// changed space is a change too.
func words(s string) []string {
	var out []string
	start, space := 0, false
	for i, r := range s {
		if now := unicode.IsSpace(r); space && !now {
			out, start, space = append(out, s[start:i]), i, false
		} else {
			space = now
		}
	}
	return append(out, s[start:])
}

// hunks shows the tokens that differ, with up to context equal ones around
// them. Tokens are joined by sep; an empty one makes one line of each run.
func (d *changeWriter) hunks(tokens []diff.Part, context int, sep, indent string) {
	for i := 0; i < len(tokens); {
		j := i
		for j < len(tokens) && tokens[j].Sign == tokens[i].Sign {
			j++
		}
		run := make([]string, 0, j-i)
		for _, t := range tokens[i:j] {
			run = append(run, t.Text)
		}
		if tokens[i].Sign == ' ' {
			run = around(run, context, i > 0, j < len(tokens))
		}
		sign := string(tokens[i].Sign)
		if sep == "" {
			if len(run) > 0 {
				d.add(sign, indent+strings.Join(run, ""))
			}
		} else {
			for _, line := range run {
				d.add(sign, indent+line)
			}
		}
		i = j
	}
}

// around shortens a run of equal tokens to those next to a change before and
// after it.
func around(run []string, context int, before, after bool) []string {
	head, tail := 0, 0
	if before {
		head = context
	}
	if after {
		tail = context
	}
	if len(run) <= head+tail+1 {
		return run
	}
	return slices.Concat(run[:head], []string{"… "}, run[len(run)-tail:])
}

// parameters shows how the parameters of a tool changed.
func (d *changeWriter) parameters(old, now json.RawMessage) {
	before, ok := readSchema(old)
	after, ok2 := readSchema(now)
	if !ok || !ok2 {
		d.schema("input schema", old, now)
		return
	}
	from := len(d.lines)
	names := map[string]bool{}
	for name := range before.properties {
		names[name] = true
	}
	for name := range after.properties {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		was, wasThere := before.properties[name]
		is, isThere := after.properties[name]
		label := "parameter " + name
		switch required := slices.Contains(after.required, name); {
		case !wasThere:
			d.add("+", label+" "+parameterKind(is, required))
		case !isThere:
			d.add("-", label+" "+parameterKind(was, slices.Contains(before.required, name)))
		default:
			if slices.Contains(before.required, name) != required {
				d.add("+", label+": "+requiredWord(!required)+" → "+requiredWord(required))
			}
			d.parameter(label, was, is)
		}
	}
	loose := func(s schemaOf) (out []string) {
		for _, name := range s.required {
			if _, ok := s.properties[name]; !ok {
				out = append(out, name)
			}
		}
		slices.Sort(out)
		return out
	}
	// Required names that are no properties are in no line above.
	d.text("required", strings.Join(loose(before), ", "), strings.Join(loose(after), ", "))
	d.schema("input schema", remarshal(before.rest), remarshal(after.rest))
	if !d.told(from) { // such as {} and no schema, or the order of "required"
		d.schema("input schema", old, now)
	}
}

// told says whether the lines from one on show something that differs.
func (d *changeWriter) told(from int) bool {
	return slices.ContainsFunc(d.lines[from:], func(line string) bool { return line[0] != ' ' })
}

// parameter shows how one parameter changed.
func (d *changeWriter) parameter(label string, was, is json.RawMessage) {
	if sameJSON(was, is) {
		return
	}
	from := len(d.lines)
	var before, after map[string]json.RawMessage
	if json.Unmarshal(was, &before) != nil || json.Unmarshal(is, &after) != nil {
		d.schema(label, was, is)
		return
	}
	if !sameJSON(before["type"], after["type"]) {
		d.add("+", label+": "+typeWord(before["type"])+" → "+typeWord(after["type"]))
	}
	var oldText, newText string
	if json.Unmarshal(orNull(before["description"]), &oldText) == nil && json.Unmarshal(orNull(after["description"]), &newText) == nil {
		d.text(label+", description", oldText, newText)
		delete(before, "description")
		delete(after, "description")
	}
	delete(before, "type")
	delete(after, "type")
	d.schema(label, remarshal(before), remarshal(after))
	if !d.told(from) { // such as an empty description and none
		d.schema(label, was, is)
	}
}

// schema shows the lines of JSON that differ. What differs in none, such as a
// member that is there twice, is shown as it was written.
func (d *changeWriter) schema(name string, old, now json.RawMessage) {
	if sameJSON(old, now) {
		return
	}
	d.add(" ", name+":")
	before, after := jsonLines(old), jsonLines(now)
	if slices.Equal(before, after) {
		before, after = rawLines(old), rawLines(now)
	}
	d.hunks(diff.Compare(before, after), 2, "\n", "  ")
}

func parameterKind(schema json.RawMessage, required bool) string {
	var s struct {
		Type        json.RawMessage `json:"type"`
		Description json.RawMessage `json:"description"`
	}
	kind := "(" + requiredWord(required) + ")"
	if json.Unmarshal(schema, &s) == nil && len(s.Type) > 0 {
		kind = "(" + typeWord(s.Type) + ", " + requiredWord(required) + ")"
	}
	var compact bytes.Buffer
	if json.Compact(&compact, schema) != nil {
		return kind
	}
	return kind + ": " + compact.String()
}

func requiredWord(required bool) string {
	if required {
		return "required"
	}
	return "optional"
}

func typeWord(raw json.RawMessage) string {
	var one string
	if json.Unmarshal(raw, &one) == nil && one != "" {
		return one
	}
	if len(raw) == 0 {
		return "any type"
	}
	return string(raw)
}

func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}

// remarshal writes members again; none are no JSON at all.
func remarshal(members map[string]json.RawMessage) json.RawMessage {
	if len(members) == 0 {
		return nil
	}
	raw, err := json.Marshal(members)
	if err != nil {
		return nil
	}
	return raw
}

// sameJSON compares by meaning, or byte for byte what is no JSON.
func sameJSON(a, b json.RawMessage) bool {
	da, errA := core.Digest(a)
	db, errB := core.Digest(b)
	if errA != nil || errB != nil || !json.Valid(a) || !json.Valid(b) { // a digest reads the first value only
		return bytes.Equal(a, b)
	}
	return da == db
}

// jsonLines writes JSON with sorted members, one to a line.
func jsonLines(raw json.RawMessage) []string {
	if len(raw) == 0 {
		return nil
	}
	if !json.Valid(raw) { // a decoder would read no further than the first value
		return rawLines(raw)
	}
	var v any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if dec.Decode(&v) != nil {
		return rawLines(raw)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if enc.Encode(v) != nil {
		return []string{string(raw)}
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	for i := range lines {
		// A comma says only that another member follows.
		lines[i] = strings.TrimSuffix(lines[i], ",")
	}
	return lines
}

// rawLines are the lines of a text as it was written.
func rawLines(raw json.RawMessage) []string {
	if len(raw) == 0 {
		return nil
	}
	return strings.Split(string(raw), "\n")
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
