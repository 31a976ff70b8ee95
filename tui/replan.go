package tui

import (
	"context"
	"fmt"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/tui/screen"
)

// emptyPlan is what the editor begins with.
const emptyPlan = `{
  "tasks": [
  ]
}
`

// maxRejected is how often a text is given back in a row before it is kept for
// the person instead: an editor that ends by itself would come up for ever.
const maxRejected = 3

// maxListed is how many tasks of a DAG the template lists.
const maxListed = 500

// plan is what a person edits to add tasks to a DAG.
type plan struct {
	run   core.ID
	head  string // the comments
	body  string // what was written below them last
	draft draft
	// rejected is how many texts were refused so far.
	rejected int
}

// replan opens the editor on a template, and adds the tasks that come back.
func (m *model) replan(id core.ID) tea.Cmd {
	return m.effect(func(ctx context.Context) then {
		w, err := m.o.Backend.Workflow(ctx, id)
		p := &plan{run: id, head: planHead(w), body: emptyPlan}
		if err == nil {
			p.draft, err = newDraft("replan-"+id.Short()+".jsonc", p.head+p.body, 0o600)
		}
		return func(m *model, now time.Time) tea.Cmd {
			if err != nil {
				m.say(screen.Bad, problem("cannot replan "+id.Short(), err), now)
				return nil
			}
			return m.editPlan(p)
		}
	})
}

// planHead says what to do and what the DAG has.
func planHead(w core.Workflow) string {
	var b strings.Builder
	name := w.ID.Short()
	if w.Intent != "" {
		name = core.Visible(w.Intent, 80, false) + " " + name
	}
	fmt.Fprintf(&b, "// Tasks to add to %s, in JSON. Lines that begin with // do not count.\n", name)
	b.WriteString("// Save the file and leave the editor to add them.\n" +
		"// Leave the file as it is, or empty, to add nothing.\n//\n" +
		"// One task: {\"id\": \"notes\", \"tool\": \"server:tool\", \"arguments\": {}, \"depends_on\": [\"draft\"]}\n//\n// The tasks that are there:\n")
	n := 0
	for _, layer := range w.Layers {
		for _, t := range layer.Tasks {
			if n++; n <= maxListed {
				fmt.Fprintf(&b, "//   layer %d  %-11s %s  %s\n", layer.Index+1, t.State, core.Visible(t.ID, 60, false), core.Visible(t.Tool, 60, false))
			}
		}
	}
	if n > maxListed {
		fmt.Fprintf(&b, "//   … (%d more)\n", n-maxListed)
	}
	return b.String()
}

func (m *model) editPlan(p *plan) tea.Cmd {
	return m.edit(p.draft, func(m *model, now time.Time, err error) tea.Cmd {
		if err != nil {
			p.draft.remove()
			m.say(screen.Bad, problem("nothing was added to "+p.run.Short(), err), now)
			return nil
		}
		return m.usePlan(p)
	})
}

// usePlan adds what the editor left, or opens it again with what is wrong.
func (m *model) usePlan(p *plan) tea.Cmd {
	epoch := m.epoch(p.run)
	return m.act(func(ctx context.Context) then {
		text, err := p.draft.read()
		if err != nil {
			return p.over(screen.Bad, problem("nothing was added to "+p.run.Short(), err))
		}
		body := withoutComments(text)
		if s := strings.TrimSpace(body); s == "" || s == strings.TrimSpace(withoutComments(p.body)) {
			return p.over(screen.Note, "nothing was added to "+p.run.Short())
		}
		r, err := m.addTasks(ctx, p.run, body)
		if err == nil {
			return p.added(r, epoch)
		}
		p.rejected++
		p.body = strings.TrimLeft(body, " \t\n")
		if werr := p.draft.write(complaint(err) + p.head + p.body); werr != nil {
			return p.over(screen.Bad, problem("nothing was added to "+p.run.Short(), werr))
		}
		if p.rejected >= maxRejected {
			return p.keep(err)
		}
		return func(m *model, _ time.Time) tea.Cmd { return m.editPlan(p) }
	})
}

func (m *model) addTasks(ctx context.Context, id core.ID, body string) (api.Result, error) {
	tasks, input, err := m.o.Backend.ParseDAG([]byte(body))
	if err != nil {
		return api.Result{}, err
	}
	if len(input) > 0 {
		return api.Result{}, core.Errorf(core.CodeDAGInvalid, "this gives an input, but a replan cannot change the input of a run; take it out")
	}
	return m.o.Backend.Replan(ctx, id, tasks, m.actor(), "")
}

// over ends a replan that added nothing.
func (p *plan) over(level screen.Level, text string) then {
	p.draft.remove()
	return func(m *model, now time.Time) tea.Cmd {
		m.say(level, text, now)
		return nil
	}
}

// keep ends a replan whose text was refused too often. What was written stays.
func (p *plan) keep(err error) then {
	return func(m *model, now time.Time) tea.Cmd {
		m.say(screen.Bad, "nothing was added; your text is in "+core.Visible(p.draft.file, 200, false)+". "+problem("refused "+p.run.Short(), err), now)
		return nil
	}
}

func (p *plan) added(r api.Result, epoch int64) then {
	p.draft.remove()
	return func(m *model, now time.Time) tea.Cmd {
		m.feed.Touch(p.run)
		m.taken.saw(r, epoch)
		m.say(screen.Good, p.run.Short()+": "+addedText(r.NewTasksCount)+" when it goes on", now)
		return nil
	}
}

// addedText says how many tasks were added.
func addedText(n int) string {
	if n == 1 {
		return "1 task added; it runs"
	}
	return fmt.Sprintf("%d tasks added; they run", n)
}

// complaint is what is wrong, as comments for the top of the file.
func complaint(err error) string {
	var b strings.Builder
	b.WriteString("// Nothing was added:\n")
	text := core.Visible(strings.TrimRight(core.AsError(err).Error(), "\n"), 4000, true)
	for line := range strings.SplitSeq(text, "\n") {
		b.WriteString("//   " + line + "\n")
	}
	b.WriteString("//\n")
	return b.String()
}

// withoutComments takes the lines that begin with // out of a text.
func withoutComments(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "//") {
			b.WriteString(line)
		}
	}
	return b.String()
}
