package state

import (
	"path"
	"slices"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
)

// Key is what a word of a filter looks at.
type Key string

// The keys of filters.
const (
	KeyStatus    Key = "status"    // of a run
	KeyName      Key = "name"      // of a run
	KeyID        Key = "id"        // of a run, or of an event's run or approval
	KeySide      Key = "side"      // client or server
	KeyKind      Key = "kind"      // of a run: code, dag, agent
	KeyWorkspace Key = "workspace" // of a run: its folder
	KeyAge       Key = "age"       // age<1h, age>2d
	KeyTool      Key = "tool"      // server:tool
	KeyType      Key = "type"      // of an event
	KeyRun       Key = "run"       // of an event: id or name of its run
	KeyTask      Key = "task"      // of an event

	keyAny Key = "" // a word alone
)

// RunKeys are the keys that say something of runs.
var RunKeys = []Key{KeyStatus, KeyName, KeyID, KeySide, KeyKind, KeyWorkspace, KeyAge, KeyTool}

// EventKeys are the keys that say something of events.
var EventKeys = []Key{KeyType, KeyRun, KeyTool, KeyTask, KeyID, KeySide, KeyAge}

// allKeys are all keys, each once.
var allKeys = []Key{KeyStatus, KeyName, KeyID, KeySide, KeyKind, KeyWorkspace, KeyAge, KeyTool, KeyType, KeyRun, KeyTask}

// Filter says which runs or events are wanted: those that match every word of
// its text. The zero value matches all. It is a value, and never changes.
//
//	status:waiting,running   one of the values; the beginning of one is enough
//	name~release             contains; upper and lower case are the same
//	tool:github:*            equals, with * for any text
//	age<1h  age>2d           younger and older than
//	type:!task_log  !name~x  not
//	"two words"              anywhere in what a list shows: state, name, id, who, folder, tools
//
// A word without its value yet, as it is while somebody types, matches all.
type Filter struct {
	text  string
	terms []term
	now   time.Time
}

// term is one word of a filter.
type term struct {
	key     Key
	not     bool
	values  []string   // in lower case; one of them must match
	globs   [][]string // the values, cut at each *
	within  bool       // ~: contained is enough
	age     time.Duration
	younger bool // than age, else older
}

// String returns the text that the filter was read from.
func (f Filter) String() string { return f.text }

// Empty reports whether the filter matches everything.
func (f Filter) Empty() bool { return len(f.terms) == 0 }

// ByAge reports whether what matches changes as time passes.
func (f Filter) ByAge() bool {
	return slices.ContainsFunc(f.terms, func(t term) bool { return t.key == KeyAge })
}

// named reports whether the name of an event's run counts.
func (f Filter) named() bool {
	return slices.ContainsFunc(f.terms, func(t term) bool { return t.key == keyAny || t.key == KeyRun || t.key == KeyName })
}

// At returns the filter with the time from which ages count. Without one the
// ages of a filter match all.
func (f Filter) At(now time.Time) Filter {
	f.now = now
	return f
}

// Run reports whether a run matches, as far as its header tells: its tools are
// not in it, see State.Match.
func (f Filter) Run(r core.Run) bool {
	if f.Empty() {
		return true
	}
	row := runRow{run: &r}
	row.prepare()
	return f.row(&row)
}

// row reports whether a run matches.
func (f Filter) row(row *runRow) bool {
	for i := range f.terms {
		t := &f.terms[i]
		if t.ofRun(row, f.now) == t.not {
			return false
		}
	}
	return true
}

// Event reports whether an event matches. The name of its run is not in it, see
// State.MatchEvent.
func (f Filter) Event(e core.Event) bool { return f.event(&e, "") }

// event reports whether an event matches whose run has a name, in lower case.
func (f Filter) event(e *core.Event, name string) bool {
	for i := range f.terms {
		t := &f.terms[i]
		if t.ofEvent(e, name, f.now) == t.not {
			return false
		}
	}
	return true
}

func (t *term) ofRun(row *runRow, now time.Time) bool {
	r := row.run
	switch t.key {
	case keyAny:
		return row.contains(t.values)
	case KeyStatus:
		return t.word(string(r.State))
	case KeySide:
		return t.word(string(r.Side))
	case KeyKind:
		return t.word(string(r.Kind))
	case KeyName:
		return t.text(row.lower)
	case KeyID:
		return t.id(r.ID)
	case KeyWorkspace:
		dir := strings.ToLower(strings.ReplaceAll(r.Workspace, `\`, "/"))
		return t.text(dir) || !t.within && t.text(path.Base(dir))
	case KeyAge:
		return t.aged(r.CreatedAt, now)
	case KeyTool:
		return slices.ContainsFunc(row.tools, func(tool string) bool { return t.text(strings.ToLower(tool)) })
	case KeyType, KeyRun, KeyTask:
	}
	return false // a run has none
}

func (t *term) ofEvent(e *core.Event, name string, now time.Time) bool {
	switch t.key {
	case keyAny:
		return containsAny(name, t.values) || t.inEvent(e)
	case KeyType:
		return t.word(string(e.Type))
	case KeySide:
		return t.word(string(e.Side))
	case KeyTool:
		return t.text(strings.ToLower(e.Tool))
	case KeyTask:
		return t.text(strings.ToLower(e.TaskID))
	case KeyRun, KeyName:
		return t.id(e.RunID) || name != "" && t.text(name)
	case KeyID:
		return t.id(e.RunID) || e.ApprovalID != "" && t.id(e.ApprovalID)
	case KeyAge:
		return t.aged(e.At, now)
	case KeyStatus, KeyKind, KeyWorkspace:
	}
	return false // an event has none
}

// inEvent looks for the values in all that an event shows.
func (t *term) inEvent(e *core.Event) bool {
	for _, v := range t.values {
		for _, s := range [...]string{string(e.Type), string(e.RunID), e.TaskID, e.Tool, e.Message} {
			if strings.Contains(strings.ToLower(s), v) {
				return true
			}
		}
		if e.Error != nil && strings.Contains(strings.ToLower(e.Error.Message), v) {
			return true
		}
	}
	return false
}

// word compares one word out of a few: its beginning is enough.
func (t *term) word(s string) bool {
	for _, v := range t.values {
		if strings.HasPrefix(s, v) || t.within && strings.Contains(s, v) {
			return true
		}
	}
	return false
}

// text compares a text in lower case.
func (t *term) text(s string) bool {
	if t.within {
		return containsAny(s, t.values)
	}
	return slices.ContainsFunc(t.globs, func(parts []string) bool { return glob(parts, s) })
}

// id compares the beginning of an id.
func (t *term) id(id core.ID) bool {
	s := strings.ToLower(string(id))
	for _, v := range t.values {
		if strings.HasPrefix(s, v) || t.within && strings.Contains(s, v) {
			return true
		}
	}
	return false
}

func (t *term) aged(at, now time.Time) bool {
	if now.IsZero() {
		return !t.not
	}
	return now.Sub(at) < t.age == t.younger
}

func containsAny(s string, values []string) bool {
	for _, v := range values {
		if strings.Contains(s, v) {
			return true
		}
	}
	return false
}

// contains reports whether one of the values is in what a list shows of a run.
func (r *runRow) contains(values []string) bool {
	if containsAny(r.words(), values) || containsAny(string(r.run.State), values) {
		return true
	}
	return slices.ContainsFunc(r.tools, func(tool string) bool { return containsAny(strings.ToLower(tool), values) })
}

// glob reports whether all of s is as a pattern says, which is cut at each *,
// where any text may stand.
func glob(parts []string, s string) bool {
	last := len(parts) - 1
	if last == 0 {
		return s == parts[0]
	}
	if !strings.HasPrefix(s, parts[0]) {
		return false
	}
	s = s[len(parts[0]):]
	for _, p := range parts[1:last] {
		i := strings.Index(s, p)
		if i < 0 {
			return false
		}
		s = s[i+len(p):]
	}
	return strings.HasSuffix(s, parts[last])
}
