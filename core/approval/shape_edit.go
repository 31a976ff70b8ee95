package approval

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/casys-ai/pml/core"
)

// Bounds are changed by lines, the same in a command, an editor and a form of a page:
//
//	max 40
//	until 10m            or: until run
//	team is "ENG"
//	path matches "docs/*.md"
//	issueId any

// ShapeLines are the bounds as lines that EditShape reads.
func ShapeLines(s core.Shape) []string {
	until := "until run"
	if s.Until != nil {
		until = "until " + s.Until.UTC().Format(time.RFC3339)
	}
	out := []string{"max " + strconv.Itoa(s.Max), until}
	for _, b := range s.Fields {
		out = append(out, lineName(b.Name)+" "+BoundLine(b))
	}
	return out
}

// lineName is the name of an argument in a line: quoted where it would be read as something
// else.
func lineName(name string) string {
	if name == "" || name == "max" || name == "until" || strings.ContainsAny(name, " \t\r\n\"#") || core.Visible(name, 0, false) != name {
		return strconv.Quote(name)
	}
	return name
}

// BoundLine is what an argument may be, as EditShape reads it behind the name. It is one line, in
// which no character is hidden.
func BoundLine(b core.Bound) string {
	switch {
	case b.Is != nil:
		return "is " + oneLine(b.Is)
	case b.Matches != "":
		return "matches " + strconv.Quote(b.Matches)
	}
	return "any"
}

// oneLine is the same JSON in one line, with escapes for what nobody would see.
func oneLine(raw json.RawMessage) string {
	var flat bytes.Buffer
	if json.Compact(&flat, raw) != nil {
		return core.Visible(string(raw), 0, false)
	}
	var out strings.Builder
	for _, r := range flat.String() {
		switch {
		case !core.Hidden(r) && r != 0x7f && r != utf8.RuneError:
			out.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}

// EditShape changes a shape by lines; empty ones, and those that begin with #, say nothing.
// What is not named stays. loop are the calls that are known, which say what types an
// argument has. All that is wrong is said.
func EditShape(s core.Shape, loop []core.Approval, lines []string, now time.Time) (core.Shape, []string) {
	s.Fields = slices.Clone(s.Fields)
	var wrong []string
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if err := editLine(&s, loop, line, now); err != nil {
			wrong = append(wrong, core.Visible(fmt.Sprintf("%q: %v", line, err), 300, false))
		}
	}
	if len(wrong) > 0 {
		return s, wrong
	}
	if err := checkShape(s); err != nil {
		wrong = append(wrong, err.Message)
	} else if len(loop) > 0 {
		if why := Outside(s, loop[0], nil); why != "" {
			wrong = append(wrong, "the call that is asked about is not within the bounds itself: "+why)
		}
	}
	return s, wrong
}

func editLine(s *core.Shape, loop []core.Approval, line string, now time.Time) error {
	name, rest, err := cutName(line)
	if err != nil {
		return err
	}
	switch {
	case line[0] != '"' && name == "max":
		n, err := strconv.Atoi(rest)
		if err != nil || n < 1 || n > MaxShapeCalls {
			return fmt.Errorf("max is a number of calls from 1 to %d", MaxShapeCalls)
		}
		s.Max = n
		return nil
	case line[0] != '"' && name == "until":
		s.Until, err = untilOf(rest, now)
		return err
	}
	i := slices.IndexFunc(s.Fields, func(b core.Bound) bool { return b.Name == name })
	if i < 0 {
		var names []string
		for _, b := range s.Fields {
			names = append(names, b.Name)
		}
		return fmt.Errorf("the calls have no argument %s; they have: %s", named(name), core.Visible(strings.Join(names, ", "), 200, false))
	}
	seen := valuesOf(loop, name)
	b := core.Bound{Name: name, Optional: s.Fields[i].Optional}
	free(&b, seen)
	what, value, _ := strings.Cut(rest, " ")
	value = strings.TrimSpace(value)
	switch what {
	case "any":
		if value != "" {
			return errors.New("nothing follows any")
		}
	case "is":
		if b.Is, err = valueLike(value, b.Types); err != nil {
			return err
		}
		b.Types, b.Size = nil, 0
	case "matches":
		if quoted, err := strconv.Unquote(value); err == nil {
			value = quoted
		}
		if value == "" {
			return errors.New("a pattern follows matches, in which * stands for any characters")
		}
		b.Matches, b.Types = value, nil
	default:
		return errors.New("an argument is followed by is VALUE, matches PATTERN or any")
	}
	s.Fields[i] = b
	return nil
}

func cutName(line string) (name, rest string, err error) {
	if line[0] != '"' {
		name, rest, _ = strings.Cut(line, " ")
		return name, strings.TrimSpace(rest), nil
	}
	quoted, err := strconv.QuotedPrefix(line)
	if err != nil {
		return "", "", errors.New("the name of the argument has no second quote")
	}
	name, err = strconv.Unquote(quoted)
	return name, strings.TrimSpace(line[len(quoted):]), err
}

// untilOf reads when bounds end: after a while, at a time, or with the run.
func untilOf(text string, now time.Time) (*time.Time, error) {
	if text == "run" {
		return nil, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if d, derr := time.ParseDuration(text); derr == nil {
		t, err = now.Add(d), nil
	}
	if err != nil {
		return nil, fmt.Errorf("until is followed by a while (10m), a time (%s) or run", now.UTC().Format(time.RFC3339))
	}
	if !t.After(now) {
		return nil, errors.New("that is over already")
	}
	t = t.UTC().Truncate(time.Second)
	return &t, nil
}

// valueLike reads a value: as JSON where it is of a type that was seen, else as a text where
// texts were.
func valueLike(text string, types []string) (json.RawMessage, error) {
	raw := json.RawMessage(text)
	if typ, _ := typeAndSize(raw); json.Valid(raw) && slices.Contains(types, typ) {
		return raw, nil
	}
	if slices.Contains(types, "text") {
		quoted, err := json.Marshal(text)
		return quoted, err
	}
	return nil, fmt.Errorf("the argument has been %s", strings.Join(types, " or "))
}

func valuesOf(loop []core.Approval, name string) (out []json.RawMessage) {
	for _, a := range loop {
		var as shown
		if json.Unmarshal(a.Context, &as) != nil {
			continue
		}
		if fields, ok := membersOf(as.Arguments); ok && fields[name] != nil {
			out = append(out, fields[name])
		}
	}
	return out
}

// LoopCall is one call of a loop that is known, as a table shows it.
type LoopCall struct {
	ID core.ID // of its approval
	// Values are those of the arguments that may differ.
	Values []string
	// Asks says why it is asked about all the same; empty: the bounds permit it.
	Asks string
}

// LoopTable is a table of the calls that are known: of its columns, and the calls in order,
// that which is asked about first.
func LoopTable(s core.Shape, loop []core.Approval) (columns []string, calls []LoopCall) {
	for _, b := range s.Fields {
		if b.Is == nil || slices.ContainsFunc(valuesOf(loop, b.Name), func(v json.RawMessage) bool { return !equalJSON(v, b.Is) }) {
			columns = append(columns, b.Name)
		}
	}
	left := s.Max
	for _, a := range loop {
		c := LoopCall{ID: a.ID, Asks: Outside(s, a, nil)}
		for _, name := range columns {
			value := ""
			if v := valuesOf([]core.Approval{a}, name); len(v) > 0 {
				value = string(v[0])
			}
			c.Values = append(c.Values, value)
		}
		if c.Asks == "" {
			if left--; left < 0 {
				c.Asks = "it is one more than the bounds are for"
			}
		}
		calls = append(calls, c)
	}
	return columns, calls
}
