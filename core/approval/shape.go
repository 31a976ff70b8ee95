package approval

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/casys-ai/pml/core"
)

// What the bounds of a shape are at most.
const (
	MaxShapeCalls  = 1000
	maxShapeFields = 100
	maxShapeName   = 200     // characters of a name or a pattern
	maxShapeSize   = 1 << 20 // characters of a value
	maxShapeBytes  = 64 << 10
)

// freeSize is how many characters a value may have that nobody has bounded: as many as this, or
// twice as many as the longest that was seen.
const freeSize = 4000

// shown is what a question about a call shows of it that the bounds of a shape are about.
type shown struct {
	Arguments json.RawMessage `json:"arguments"`
	Leaves    bool            `json:"leaves_workspace"`
}

// Outside says in a few words why a call is not within a shape; empty: it is. q is the
// question that would be asked about the call, and sent are the arguments that would be sent,
// which the question shows without the values of keys; nil where only the question is known.
// Count and time are the caller's.
func Outside(s core.Shape, q core.Approval, sent json.RawMessage) string {
	var as shown
	switch {
	case q.Type != core.ApproveTool:
		return "it asks for something else than a tool"
	case q.Once:
		return "this call is asked about each time"
	case q.Tool != s.Tool:
		return "it is of another tool"
	case q.Place.Line == 0 || q.Place != s.Place:
		return "it is made at another place of the script"
	case s.Risk.Below(q.Risk):
		return "its risk is higher"
	case json.Unmarshal(q.Context, &as) != nil:
		return "its question cannot be read"
	case as.Leaves && !s.Leaves:
		return "it leaves the workspace"
	}
	if why := outsideFields(s.Fields, as.Arguments, true); why != "" || sent == nil {
		return why
	}
	return outsideFields(s.Fields, sent, false)
}

// outsideFields says which of some arguments is not what its bound lets it be. A value that is
// given is compared with what is shown of the argument, where a key stands by its name.
func outsideFields(bounds []core.Bound, args json.RawMessage, given bool) string {
	fields, ok := membersOf(args)
	if !ok {
		return "its arguments are no plain object"
	}
	left := len(fields)
	for _, b := range bounds {
		v, ok := fields[b.Name]
		switch {
		case !ok && b.Optional:
			continue
		case !ok:
			return "it lacks " + named(b.Name)
		}
		left--
		if b.Is != nil && !given {
			continue
		}
		if why := outsideBound(b, v); why != "" {
			return named(b.Name) + " " + why
		}
	}
	if left == 0 {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.ContainsFunc(bounds, func(b core.Bound) bool { return b.Name == name }) {
			return "it has " + named(name) + " besides"
		}
	}
	return "its arguments are no plain object"
}

// membersOf are those of an object that has none twice; nothing of any other value.
func membersOf(raw json.RawMessage) (map[string]json.RawMessage, bool) {
	var out map[string]json.RawMessage
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return nil, true
	}
	if raw[0] != '{' || core.TooDeep(raw) || core.CheckKeys("", raw) != nil || json.Unmarshal(raw, &out) != nil {
		return nil, false
	}
	return out, true
}

func outsideBound(b core.Bound, v json.RawMessage) string {
	typ, size := typeAndSize(v)
	switch {
	case b.Is != nil:
		if !equalJSON(b.Is, v) {
			return "is another value"
		}
		return ""
	case size > b.Size:
		return "is longer"
	case b.Matches != "":
		var text string
		if typ != "text" || json.Unmarshal(v, &text) != nil || !Matches(b.Matches, text) {
			return "does not match"
		}
		return ""
	case !slices.Contains(b.Types, typ):
		return "is of another type"
	}
	return ""
}

// typeAndSize is what sort of JSON a value is, and how many characters its text has, or it itself
// where it is no text.
func typeAndSize(v json.RawMessage) (string, int) {
	var text string
	var flat bytes.Buffer
	v = bytes.TrimSpace(v)
	if len(v) == 0 || json.Compact(&flat, v) != nil {
		return "", 0
	}
	size := utf8.RuneCount(flat.Bytes())
	switch v[0] {
	case '"':
		if json.Unmarshal(v, &text) != nil {
			return "", 0
		}
		return "text", utf8.RuneCountInString(text)
	case '{':
		return "object", size
	case '[':
		return "list", size
	case 't', 'f':
		return "boolean", size
	case 'n':
		return "null", size
	}
	return "number", size
}

// shapeTypes are the types that a bound may name, and their words.
var shapeTypes = map[string]string{
	"text": "any text", "number": "any number", "boolean": "true or false", "list": "any list", "object": "any object", "null": "nothing (null)",
}

// Matches reports whether a text is what a pattern stands for: * is any characters, also none. A
// step up in a path (..) stands only where the pattern itself has it.
func Matches(pattern, text string) bool {
	if stepsUp(text) > stepsUp(pattern) {
		return false
	}
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return text == pattern
	}
	first, last := parts[0], parts[len(parts)-1]
	if len(text) < len(first)+len(last) || !strings.HasPrefix(text, first) || !strings.HasSuffix(text, last) {
		return false
	}
	rest := text[len(first) : len(text)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(rest, part)
		if i < 0 {
			return false
		}
		rest = rest[i+len(part):]
	}
	return true
}

// stepsUp counts the elements of a path that lead up, as well where its characters are encoded
// for a URL.
func stepsUp(text string) (n int) {
	plain := strings.NewReplacer("%2e", ".", "%2E", ".", "%2f", "/", "%2F", "/", "%5c", "/", "%5C", "/", "%25", "%", `\`, "/")
	for range 4 {
		text = plain.Replace(text)
	}
	for part := range strings.SplitSeq(text, "/") {
		if strings.TrimSpace(part) == ".." {
			n++
		}
	}
	return n
}

// OfLoop are the open questions of a list about calls that the same place of a script makes as
// the one that the first is about: that one, and the others by age. In this order a yes with
// bounds that are for fewer calls permits them. There is nothing where no shape can be about that.
func OfLoop(list []core.Approval) []core.Approval {
	a := list[0]
	if a.Type != core.ApproveTool || a.Once || a.Place.Line == 0 || core.IsProvider(a.Tool) {
		return nil
	}
	out := slices.DeleteFunc(slices.Clone(Alike(list)), func(o core.Approval) bool { return o.Place != a.Place })
	slices.SortFunc(out[1:], func(x, y core.Approval) int { return cmp.Or(x.CreatedAt.Compare(y.CreatedAt), cmp.Compare(x.ID, y.ID)) })
	return out
}

// InLoop reports whether an approval is about a call of which a loop of a script can make more,
// so that bounds can permit them as one.
func InLoop(a core.Approval) bool { return len(OfLoop([]core.Approval{a})) > 0 }

// Loop is OfLoop of a question and of those others that can be decided at now: they are open, or
// have expired and nobody has asked again.
func Loop(a core.Approval, among []core.Approval, now time.Time) []core.Approval {
	list := []core.Approval{a}
	for _, o := range among {
		st := o.StateAt(now)
		if o.ID != a.ID && (st == core.ApprovalOpen || st == core.ApprovalExpired && o.RenewedBy == "") {
			list = append(list, o)
		}
	}
	return OfLoop(list)
}

// Propose is the narrowest shape that the calls of a loop are within, as far as they are
// known: OfLoop. An argument that is the same in all has that value. Of a single one the
// arguments that the script computes may be others in the next round.
func Propose(loop []core.Approval) (core.Shape, bool) {
	if len(loop) == 0 {
		return core.Shape{}, false
	}
	a := loop[0]
	s := core.Shape{Tool: a.Tool, Place: a.Place, Max: min(max(len(loop), 2), MaxShapeCalls), Risk: a.Risk, Fields: []core.Bound{}}
	seen := map[string][]json.RawMessage{}
	for i, o := range loop {
		var as shown
		fields, ok := map[string]json.RawMessage{}, false
		if json.Unmarshal(o.Context, &as) == nil {
			fields, ok = membersOf(as.Arguments)
		}
		if !ok {
			return core.Shape{}, false
		}
		if i == 0 {
			s.Leaves = as.Leaves
		}
		for name, v := range fields {
			seen[name] = append(seen[name], v)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		b := core.Bound{Name: name, Optional: len(seen[name]) < len(loop)}
		differs := slices.ContainsFunc(seen[name], func(v json.RawMessage) bool { return !equalJSON(v, seen[name][0]) })
		if differs || len(loop) == 1 && slices.Contains(a.Computed, name) {
			free(&b, seen[name])
		} else {
			b.Is = seen[name][0]
		}
		s.Fields = append(s.Fields, b)
	}
	return s, checkShape(s) == nil
}

// free lets an argument have any value of the types that some values have.
func free(b *core.Bound, like []json.RawMessage) {
	b.Is, b.Matches, b.Types, b.Size = nil, "", nil, freeSize
	for _, v := range like {
		typ, size := typeAndSize(v)
		if !slices.Contains(b.Types, typ) {
			b.Types = append(b.Types, typ)
		}
		b.Size = min(max(b.Size, 2*size), maxShapeSize)
	}
	slices.Sort(b.Types)
}

// checkShape refuses bounds that are not well-formed.
func checkShape(s core.Shape) *core.Error {
	wrong := func(format string, args ...any) *core.Error {
		return core.Errorf(core.CodeInvalidArguments, format+"; nothing was decided", args...)
	}
	raw, err := json.Marshal(s)
	switch {
	case err != nil || len(raw) > maxShapeBytes:
		return wrong("the bounds are more than %d bytes: free long arguments, or approve the calls one by one", maxShapeBytes)
	case s.Tool == "" || s.Place.Line < 1:
		return wrong("the bounds name no tool, or no place of a script")
	case s.Max < 1 || s.Max > MaxShapeCalls:
		return wrong("the bounds are for %d calls: they are for 1 to %d", s.Max, MaxShapeCalls)
	case len(s.Fields) > maxShapeFields:
		return wrong("the bounds are about %d arguments: they are about %d at most", len(s.Fields), maxShapeFields)
	}
	for i, b := range s.Fields {
		if i > 0 && s.Fields[i-1].Name >= b.Name {
			return wrong("the bounds of arguments are not in the order of their names, each once")
		}
		if why := checkBound(b); why != "" {
			return wrong("the bound of %s %s", named(b.Name), why)
		}
	}
	return nil
}

func checkBound(b core.Bound) string {
	kinds := 0
	for _, is := range []bool{b.Is != nil, b.Matches != "", len(b.Types) > 0} {
		if is {
			kinds++
		}
	}
	switch {
	case utf8.RuneCountInString(b.Name) > maxShapeName || utf8.RuneCountInString(b.Matches) > maxShapeName:
		return fmt.Sprintf("has a name or a pattern of more than %d characters", maxShapeName)
	case kinds != 1:
		return "must be one of a value, a pattern and types"
	case b.Is != nil && (b.Size != 0 || !json.Valid(b.Is) || core.TooDeep(b.Is) || core.CheckKeys("", b.Is) != nil):
		return "is no value that can be compared"
	case b.Is == nil && (b.Size < 1 || b.Size > maxShapeSize):
		return fmt.Sprintf("must say of how many characters it is at most, up to %d", maxShapeSize)
	}
	for i, typ := range b.Types {
		if shapeTypes[typ] == "" || i > 0 && b.Types[i-1] >= typ {
			return "names a type that there is not, or not in order"
		}
	}
	return ""
}

// shaped refuses bounds with a decision that cannot have them, and those that are not about
// what was asked: nobody gives more with them than for this tool at this place, at this risk.
func shaped(a core.Approval, d core.Decision, now time.Time) *core.Error {
	if d.Answer == nil || d.Answer.Shape == nil {
		return nil
	}
	s := *d.Answer.Shape
	if err := checkShape(s); err != nil {
		return err
	}
	wrong := func(format string, args ...any) *core.Error {
		return core.Errorf(core.CodeInvalidArguments, format+"; nothing was decided", args...)
	}
	switch {
	case !PersonsVia(d.By.Via):
		return core.Errorf(core.CodePermissionDenied, "an agent does not approve the calls of a loop as one, and no dialog of its host does: a person does that with pml approve %s --shape; nothing was decided", a.ID.Short())
	case !d.Approved || a.Type != core.ApproveTool:
		return wrong("bounds go with the approval of a tool's call only")
	case d.Answer.Remember != "" || len(d.Answer.Arguments) > 0 || d.Answer.InDoubt != "" || d.Answer.Scripts:
		return wrong("with bounds nothing else is remembered or changed")
	case a.Risk != s.Risk:
		return wrong("the bounds are for the risk %s, and the question is of the risk %s", core.Visible(string(s.Risk), 20, false), a.Risk)
	case s.Until != nil && !s.Until.After(now):
		return wrong("the bounds ended at %s, before they could begin", s.Until.UTC().Format(time.RFC3339))
	}
	if why := Outside(s, a, nil); why != "" {
		return wrong("the call that was asked about is not within the bounds itself: %s", why)
	}
	var as shown
	if json.Unmarshal(a.Context, &as) != nil || s.Leaves && !as.Leaves {
		return wrong("the bounds let calls leave the workspace, which the call that was asked about does not")
	}
	return nil
}

// PersonsVia reports whether bounds of several calls can be given on a way: those on which a
// person sees them.
func PersonsVia(via core.Via) bool {
	return slices.Contains([]core.Via{core.ViaCLI, core.ViaTUI, core.ViaHTTP, core.ViaPage}, via)
}

// sameShape reports whether two decisions have given the same bounds.
func sameShape(a, b *core.Shape) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, err := a.Digest()
	y, err2 := b.Digest()
	return err == nil && err2 == nil && x == y
}

func named(name string) string { return core.Visible(name, 60, false) }
