package screen

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/state"
	"github.com/casys-ai/pml/tui/widget"
)

// hostsPanel shows the agents that work through pml: each client in each folder, by the
// runs that it has begun.
type hostsPanel struct {
	list    []agentRow
	version int64
	made    bool
	key     agentKey
	scroll  widget.Scroll
}

func newHosts() *hostsPanel { return &hostsPanel{} }

// agentKey tells agents apart.
type agentKey struct {
	client, who, folder string
	side                core.Side
}

// agentRow is one agent in one folder.
type agentRow struct {
	agentKey
	runs, active int
	waiting      []core.ID // runs that wait
	first, last  time.Time
}

// refresh makes the rows anew when a run has changed: who was active last first.
func (p *hostsPanel) refresh(e *Env) {
	if p.made && p.version == e.State.RunsVersion() {
		return
	}
	p.made, p.version = true, e.State.RunsVersion()
	by := map[agentKey]*agentRow{}
	for _, id := range e.State.Runs() {
		r, _ := e.State.Run(id)
		host := r.RequestedBy.Host()
		if host == "" && r.RequestedBy.Via != core.ViaMCP {
			continue
		}
		k := agentKey{strings.TrimSpace(cmp.Or(host, "agent") + " " + r.RequestedBy.Client.Version), r.RequestedBy.Who, r.Workspace, r.Side}
		row := by[k]
		if row == nil {
			row = &agentRow{agentKey: k, first: r.CreatedAt, last: r.UpdatedAt}
			by[k] = row
		}
		row.runs++
		if !r.State.Final() {
			row.active++
		}
		if r.State == core.RunWaiting {
			row.waiting = append(row.waiting, id)
		}
		if r.CreatedAt.Before(row.first) {
			row.first = r.CreatedAt
		}
		if r.UpdatedAt.After(row.last) {
			row.last = r.UpdatedAt
		}
	}
	p.list = p.list[:0]
	for _, row := range by {
		p.list = append(p.list, *row)
	}
	slices.SortFunc(p.list, func(a, b agentRow) int {
		return cmp.Or(b.last.Compare(a.last), cmp.Compare(a.client, b.client), cmp.Compare(a.folder, b.folder), cmp.Compare(a.who, b.who), cmp.Compare(a.side, b.side))
	})
}

func (p *hostsPanel) at() int {
	return max(slices.IndexFunc(p.list, func(r agentRow) bool { return r.agentKey == p.key }), 0)
}

func (p *hostsPanel) do(act keys.Action, e *Env) ([]Intent, bool) {
	p.refresh(e)
	n := len(p.list)
	if to, ok := p.scroll.Move(act, p.at(), n); ok {
		if n > 0 {
			p.key = p.list[max(to, 0)].agentKey
		}
		return nil, true
	}
	if n == 0 {
		return nil, false
	}
	r := p.list[p.at()]
	switch act {
	case keys.Open:
		return []Intent{showRunsOf{r.agentKey}}, true
	case keys.CopyID:
		return []Intent{Copy{What: "a folder", Text: r.folder}}, true
	default:
		return nil, false
	}
}

// showRunsOf lists the runs of an agent.
type showRunsOf struct{ agentKey }

func (showRunsOf) intent() {}

// runsOf has the list of runs show those of an agent.
func (s *Screen) runsOf(k agentKey) {
	name, _, _ := strings.Cut(k.client, " ")
	f, err := state.ParseFilter(`"`+strings.ReplaceAll(name, `"`, "")+`" "`+strings.ReplaceAll(k.folder, `"`, "")+`"`, state.RunKeys...)
	if err == nil {
		s.panels[PanelWorkflows].(*workflowsPanel).filter = f
	}
	s.focusOn(PanelWorkflows)
}

func (p *hostsPanel) click(_, y int, _ *Env) []Intent {
	if row := p.scroll.Top + y - 2; y >= 2 && y < 2+p.scroll.Height && row < len(p.list) {
		p.key = p.list[row].agentKey
	}
	return nil
}

func (p *hostsPanel) hints(*Env) []keys.Action {
	return []keys.Action{keys.Open, keys.CopyID, keys.Palette}
}

// The columns of the list of agents.
const (
	hoClient = iota
	hoFolder
	hoRuns
	hoWaits
	hoSince
	hoLast
)

func (p *hostsPanel) draw(a paint.Area, e *Env, focus bool) {
	p.refresh(e)
	in := a.Frame(paint.Title{Left: "8 Hosts", Right: plural(len(p.list), "agent") + ", by their runs", Focus: focus})
	if len(p.list) == 0 {
		for i, l := range paint.Wrap("No agent has begun a run yet. pml init tells Claude Code, Cursor and other hosts of pml; then ask your agent to use it.", in.W) {
			in.Put(0, i, paint.Style{Role: paint.Muted}, l)
		}
		return
	}
	cols := widget.PlaceColumns([]widget.Column{
		hoClient: {Title: "CLIENT", Width: 18, Grow: true}, hoFolder: {Title: "FOLDER", Width: 14, Grow: true}, hoRuns: {Title: "RUNS", Width: 14, Drop: 3},
		hoWaits: {Title: "WAITS FOR", Width: 20, Grow: true}, hoSince: {Title: "SINCE", Width: 5, Drop: 2}, hoLast: {Title: "LAST", Width: 5, Drop: 1},
	}, 3, in.W-3)
	widget.DrawTitles(in, 0, cols)
	at := p.at()
	p.scroll.Show(at, len(p.list), in.H-1)
	for y := 0; y < p.scroll.Height && p.scroll.Top+y < len(p.list); y++ {
		p.drawAgent(in, 1+y, cols, p.list[p.scroll.Top+y], e)
		if p.scroll.Top+y == at {
			widget.DrawCursor(in, 1+y, focus)
		}
	}
}

func (p *hostsPanel) drawAgent(in paint.Area, y int, cols []widget.Column, r agentRow, e *Env) {
	muted := paint.Style{Role: paint.Muted}
	cols[hoClient].Text(in, y, paint.Style{}, core.Visible(r.client+" ("+r.who+")", 80, false))
	folder := path.Base(strings.ReplaceAll(r.folder, `\`, "/"))
	if r.side == core.SideServer {
		folder += " on the server"
	}
	cols[hoFolder].Text(in, y, paint.Style{}, core.Visible(folder, 80, false))
	runs := itoa(r.runs)
	if r.active > 0 {
		runs += ", " + itoa(r.active) + " active"
	}
	cols[hoRuns].Text(in, y, muted, runs)
	cols[hoWaits].Text(in, y, paint.Style{Role: paint.Warn}, waitsText(r.waiting, e))
	cols[hoSince].Text(in, y, muted, ageText(e.Now.Sub(r.first)))
	cols[hoLast].Text(in, y, muted, ageText(e.Now.Sub(r.last)))
}

// waitsText says what runs wait for: that which expires first.
func waitsText(runs []core.ID, e *Env) string {
	for _, a := range e.State.Waiting(e.Now) {
		if slices.Contains(runs, a.RunID) {
			text := typeName(a.Type) + " " + whatText(a)
			if len(runs) > 1 {
				text += " and " + itoa(len(runs)-1) + " more"
			}
			return text
		}
	}
	return ""
}
