package page

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
)

// ExportVersion is the version of the file that this pml writes. A file of it looks the
// same from every pml: the layout of a version does not change once it was released.
const ExportVersion = 1

const exportFormat = "pml-run-page"

// maxCalls is how many calls one file shows.
const maxCalls = 500

// Export is what the file of a run says. All texts are fit to be shown; the rows of the
// audit log are as they are there.
type Export struct {
	Format     string          `json:"format"` // "pml-run-page"
	Version    int             `json:"version"`
	Pml        string          `json:"pml"` // the version of pml that wrote it
	ExportedAt time.Time       `json:"exported_at"`
	Title      string          `json:"title"`
	State      core.RunState   `json:"state"`
	Side       core.Side       `json:"side"`
	Facts      []Fact          `json:"facts"`
	Questions  []Question      `json:"questions,omitempty"` // that are open
	Runs       []ExportedRun   `json:"runs"`                // the run, and those that it has started
	Result     string          `json:"result,omitempty"`
	Left       []string        `json:"left_out,omitempty"` // what the file does not show
	Rows       []core.AuditRow `json:"audit"`
	// Head is the newest row of the chain when the file was made; nil: it had none.
	Head *Head `json:"audit_head,omitempty"`
}

// Fact is something with a name.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Head is a place in the audit chain.
type Head struct {
	Seq  int64  `json:"seq"`
	Hash string `json:"hash"`
}

// Question is an approval that is open.
type Question struct {
	ID     string `json:"id"`
	Text   string `json:"text"`
	Risk   string `json:"risk"`
	Until  string `json:"until,omitempty"`
	Digest string `json:"digest"`
}

// ExportedRun is one run of the file. Title and state of the first are those of the file.
type ExportedRun struct {
	ID     core.ID       `json:"id"`
	Title  string        `json:"title,omitempty"`
	State  core.RunState `json:"state,omitempty"`
	Groups []Group       `json:"groups"`
}

// Group is a layer of a run, or a step of an agent.
type Group struct {
	Title string `json:"title"`
	Note  string `json:"note,omitempty"`
	Said  string `json:"said,omitempty"` // by the model
	Calls []Call `json:"calls,omitempty"`
}

// Call is one call of a tool.
type Call struct {
	ID        string         `json:"id"`
	Tool      string         `json:"tool"`
	State     core.TaskState `json:"state"`
	When      string         `json:"when,omitempty"`
	Took      string         `json:"took,omitempty"`
	Attempt   int            `json:"attempt,omitempty"` // if it is not the first
	Arguments string         `json:"arguments,omitempty"`
	Result    string         `json:"result,omitempty"`
	Error     string         `json:"error,omitempty"`
}

// Source is what a file is made from, as whoever gets the file may see it: values of
// secrets are left out already.
type Source struct {
	Run core.Workflow
	// Below are the runs that it has started, in the order in which the file has them.
	Below []core.Workflow
	Trail Rows
	At    time.Time
	Pml   string // the version of pml
}

// NewExport is what the file of a run says.
func NewExport(s Source) Export {
	w := s.Run
	e := Export{
		Format: exportFormat, Version: ExportVersion, Pml: s.Pml, ExportedAt: s.At.UTC().Truncate(time.Second), Title: shown(w.Title()), State: w.State, Side: w.Side,
		Facts: facts(w), Result: value(w.Result), Rows: s.Trail.Of, Head: s.Trail.Head,
	}
	for _, p := range w.Approvals {
		if p.StateAt(s.At) == core.ApprovalOpen {
			e.Questions = append(e.Questions, question(p))
		}
	}
	left := maxCalls
	for _, run := range append([]core.Workflow{w}, s.Below...) {
		e.Runs = append(e.Runs, exportedRun(run, &left))
	}
	e.Runs[0].Title, e.Runs[0].State = "", ""
	if left < 0 {
		e.Left = append(e.Left, fmt.Sprintf("%d calls more are not shown here; pml workflows export without --html has all", -left))
	}
	return e
}

func facts(w core.Workflow) (out []Fact) {
	add := func(name, text string) {
		if text != "" {
			out = append(out, Fact{name, shown(text)})
		}
	}
	add("begun by", origin(w.RequestedBy))
	if w.Intent != w.Title() {
		add("intent", w.Intent)
	}
	add("kind", string(w.Kind))
	add("where", cmp.Or(map[core.Side]string{core.SideServer: "a server"}[w.Side], "this machine")+", "+w.Workspace)
	add("begun", stamp(w.CreatedAt))
	if w.EndedAt != nil {
		add("ended", stamp(*w.EndedAt))
	}
	if w.ParentID != "" {
		add("started by", "run "+string(w.ParentID))
	}
	if w.Imported != nil {
		add("copy", "imported "+stamp(w.Imported.At)+" by "+origin(w.Imported.By)+"; it was "+string(w.Imported.State)+" there")
	}
	if w.Agent != nil {
		add("model", w.Agent.Model)
		add("used", w.Agent.Text())
	}
	if w.Error != nil {
		add("error", string(w.Error.Code)+": "+w.Error.Message)
	}
	for _, d := range w.Dropped {
		text := d.TaskID + " " + d.Tool + ", never sent"
		if d.MayHaveRun {
			text = d.TaskID + " " + d.Tool + ", which may have run"
		}
		add("taken back", text)
	}
	return out
}

// origin says who it is, and by what means.
func origin(by core.Actor) string {
	if by == (core.Actor{}) {
		return ""
	}
	return by.Origin()
}

func question(p core.Approval) Question {
	q := Question{ID: string(p.ID), Text: core.Visible(p.Description, valueRunes, true), Risk: string(p.Risk), Digest: shown(p.Digest)}
	if p.ExpiresAt != nil {
		q.Until = stamp(*p.ExpiresAt)
	}
	return q
}

func exportedRun(w core.Workflow, left *int) ExportedRun {
	r := ExportedRun{ID: w.ID, Title: shown(w.Title()), State: w.State, Groups: []Group{}}
	if w.Kind == core.KindAgent {
		for i, step := range core.AgentSteps(w) {
			r.Groups = append(r.Groups, stepOf(i+1, step, w, left))
		}
		return r
	}
	for _, l := range w.Layers {
		g := Group{Title: fmt.Sprintf("Layer %d", l.Index+1)}
		for _, t := range l.Tasks {
			g.add(t, left)
		}
		r.Groups = append(r.Groups, g)
	}
	return r
}

// stepOf is a request to a model, with what the model said and the runs that it led to.
func stepOf(n int, step core.AgentStep, w core.Workflow, left *int) Group {
	var price *core.AgentPrice
	if w.Agent != nil {
		price = w.Agent.Price
	}
	g := Group{Title: fmt.Sprintf("Step %d", n), Note: shown(step.UsedText(price)), Said: core.Visible(step.Answer.Text, valueRunes, true)}
	for _, c := range step.Runs {
		g.add(c.Task, left)
	}
	return g
}

// add adds a call, while the file shows more.
func (g *Group) add(t core.Task, left *int) {
	if *left--; *left < 0 {
		return
	}
	c := Call{ID: shown(t.ID), Tool: shown(t.Tool), State: t.State, Took: took(t.DurationMS), Arguments: value(t.Made()), Result: value(t.Output)}
	if t.StartedAt != nil {
		c.When = stamp(*t.StartedAt)
	}
	if t.Attempt > 1 {
		c.Attempt = t.Attempt
	}
	if t.Error != nil {
		c.Error = core.Visible(string(t.Error.Code)+": "+t.Error.Message, valueRunes, true)
	}
	g.Calls = append(g.Calls, c)
}

// ids are the runs of the file.
func (e Export) ids() map[core.ID]bool {
	out := map[core.ID]bool{}
	for _, r := range e.Runs {
		out[r.ID] = true
	}
	return out
}

// decision is a row of the audit log as the file shows it.
type decision struct {
	Seq     int64
	Outcome string
	What    string
	Who     string
	When    string
	Facts   []Fact
}

// decisions are made of the rows when the file is laid out, so that what it shows of
// them cannot be anything else than what it has for checking.
func (e Export) decisions() []decision {
	out := make([]decision, 0, len(e.Rows))
	for _, r := range e.Rows {
		d := decision{Seq: r.Seq, Outcome: shown(string(r.Outcome)), When: stamp(r.At), Who: shown(cmp.Or(origin(r.By), "nobody"))}
		d.What = shown(strings.TrimSpace(cmp.Or(r.Tool, "the run") + " " + strings.ReplaceAll(string(r.Type), "_", " ")))
		if r.Count > 1 {
			d.Outcome += fmt.Sprintf(" ×%d", r.Count)
		}
		for _, f := range []Fact{
			{"via", string(r.By.Via)}, {"asked", string(r.Asked)}, {"reason", r.Reason}, {"remembered", string(r.Remember)}, {"digest", r.Digest},
			{"sent instead", r.SentDigest}, {"asks again for", string(r.Renewed)}, {"question", string(r.ApprovalID)}, {"run", e.below(r.RunID)}, {"hash", r.Hash},
		} {
			if f.Value != "" {
				d.Facts = append(d.Facts, Fact{f.Name, shown(f.Value)})
			}
		}
		out = append(out, d)
	}
	return out
}

// below is the id of a run that is not the first of the file.
func (e Export) below(id core.ID) string {
	if i := slices.IndexFunc(e.Runs, func(r ExportedRun) bool { return r.ID == id }); i > 0 {
		return string(id)
	}
	return ""
}

// encoded is the data of a file. No character of it ends the element that it stands in.
func (e Export) encoded() (json.RawMessage, error) {
	if e.Rows == nil {
		e.Rows = []core.AuditRow{}
	}
	raw, err := json.Marshal(e)
	if err != nil {
		return nil, core.Errorf(core.CodeInternal, "the run cannot be written as JSON: %w", err)
	}
	return raw, nil
}
