package suggest

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// plan is a DAG for an intent.
type plan struct {
	tasks      []core.TaskSpec
	missing    []api.MissingArgument
	used       []hit // the tools of the tasks
	confidence float64
	unmatched  []string // steps without a tool
}

// planner makes the tasks of a plan, one step after the other.
type planner struct {
	x       *Index
	context map[string]json.RawMessage
	newID   func(n int) string
	plan    plan
	// before are the tasks that must be done first, here those since.
	before, here []string
	last         int // of the docs: the tool of the last task
}

// plan makes a task of each step. The confidence is that of its worst step.
func (x *Index) plan(intent string, past echoes, memories []memory, r Request) plan {
	p := planner{x: x, context: contextOf(r.Context), newID: r.NewID, last: -1}
	if p.newID == nil {
		p.newID = func(n int) string { return "t" + strconv.Itoa(n) }
	}
	steps := x.joined(x.steps(intent), past, memories)
	for _, s := range steps {
		if s.after {
			p.before, p.here = p.here, nil
		}
		boosts := past
		if len(steps) > 1 {
			boosts = past.halved(x.similar(s.text, memories))
		}
		ranked := x.rank(s.text, boosts)
		if len(ranked) == 0 || ranked[0].score < fits {
			p.plan.unmatched = append(p.plan.unmatched, strings.TrimSpace(s.text))
			if s.after {
				p.here = p.before
			}
			continue
		}
		p.task(s, ranked[0])
	}
	return p.plan
}

// joined puts a step that was cut off at a comma or an "and" back to the one before
// it when no tool fits it alone.
func (x *Index) joined(steps []step, past echoes, memories []memory) []step {
	var out []step
	for _, s := range steps {
		if len(out) > 0 && !s.after {
			ranked := x.rank(s.text, past.halved(x.similar(s.text, memories)))
			if len(ranked) == 0 || ranked[0].score < fits {
				last := &out[len(out)-1]
				last.text += " " + s.text
				last.values = append(slices.Clone(last.values), s.values...)
				continue
			}
		}
		out = append(out, s)
	}
	return out
}

// refers finds words that mean what a step before has given.
var refers = pattern(`(?i)\b(it|its|them|their|this|that|these|those|result|results|output|contents?|résultats?|resultats?|contenu|le|la|les)\b`)

// task adds a task for a step.
func (p *planner) task(s step, h hit) {
	d := p.x.docs[h.doc]
	n := len(p.plan.tasks)
	t := core.TaskSpec{ID: p.newID(n + 1), Tool: d.tool.ID(), DependsOn: slices.Clone(p.before)}
	f := newFiller(d.schema, s.values)
	f.fill(s.text)
	f.given(p.context)
	if n > 0 && refers().MatchString(mask(s.text, scan(s.text), '_')) && p.feed(f, p.plan.tasks[n-1].ID) && !slices.Contains(t.DependsOn, p.plan.tasks[n-1].ID) {
		t.DependsOn = append(t.DependsOn, p.plan.tasks[n-1].ID)
	}
	for _, name := range f.missing() {
		p.plan.missing = append(p.plan.missing, api.MissingArgument{TaskID: t.ID, Argument: name})
	}
	t.Arguments = arguments(f.args)
	p.plan.tasks = append(p.plan.tasks, t)
	p.here = append(p.here, t.ID)
	p.plan.used = append(p.plan.used, h)
	p.last = h.doc
	if c := round(h.score); n == 0 || c < p.plan.confidence {
		p.plan.confidence = c
	}
}

// feed gives what is still missing the output of the task before: a property of
// the same name and type where its schema has one, else the whole of it for text.
func (p *planner) feed(f *filler, from string) bool {
	out := parseSchema(p.x.docs[p.last].tool.OutputSchema)
	fed := false
	for _, name := range f.missing() {
		want := f.schema.props[name]
		got, same := out.props[name]
		switch {
		case same && len(want.types) > 0 && slices.ContainsFunc(want.types, got.is) && plain(name):
			f.args[name] = quote("$" + from + "." + name)
		case !want.text() || !want.called(textNames):
			continue
		case len(out.props) == 0:
			f.args[name] = quote("$" + from)
		default:
			source := textOf(out)
			if source == "" {
				continue
			}
			f.args[name] = quote("$" + from + "." + source)
		}
		fed = true
	}
	return fed
}

// textOf is the property that holds the text of an output, if one plainly does.
func textOf(s schema) string {
	for _, name := range s.names {
		if p := s.props[name]; p.text() && p.called(textNames) && plain(name) {
			return name
		}
	}
	return ""
}

var member = pattern(`^[A-Za-z_][A-Za-z0-9_]*$`)

// plain reports whether a name can stand in a reference as it is.
func plain(name string) bool { return member().MatchString(name) }

// contextOf reads the values that a caller has at hand, by the words of their names.
func contextOf(raw json.RawMessage) map[string]json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return nil
	}
	out := make(map[string]json.RawMessage, len(members))
	for _, name := range slices.Sorted(maps.Keys(members)) {
		out[strings.Join(nameWords(name), " ")] = members[name]
	}
	return out
}

func arguments(args map[string]json.RawMessage) json.RawMessage {
	raw, err := json.Marshal(args)
	if err != nil {
		return json.RawMessage("{}")
	}
	return raw
}
