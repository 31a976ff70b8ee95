package screen

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/state"
	"github.com/casys-ai/pml/tui/widget"
)

// hostsPanel shows the agents that work through pml: each client in each folder, those
// that are connected and those that have begun runs.
type hostsPanel struct {
	list      []agentRow
	connected []api.ConnectedHost
	err       string // why it is not known which are connected
	version   int64
	made      bool
	key       agentKey
	scroll    widget.Scroll
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
	waiting      []core.ID           // runs that wait
	connected    []api.ConnectedHost // processes that it is connected to now
	first, last  time.Time
}

// since is from when on the agent is there, or was.
func (r *agentRow) since() time.Time {
	if len(r.connected) > 0 {
		return r.connected[0].Since
	}
	return r.first
}

// process is the process of pml that the agent is connected to.
func (r *agentRow) process() string {
	if len(r.connected) == 0 {
		return ""
	}
	c := r.connected[0]
	text := core.Visible(c.Transport, 10, false) + " " + itoa(c.PID)
	if more := len(r.connected) - 1; more > 0 {
		text += " +" + itoa(more)
	}
	return text
}

// ShowHosts takes the hosts that are connected, or why they cannot be read.
func (s *Screen) ShowHosts(list []api.ConnectedHost, err error) {
	p := s.panels[PanelHosts].(*hostsPanel)
	if p.err = ""; err != nil {
		p.err = core.Visible(err.Error(), 300, false)
	}
	p.connected, p.made = list, false
}

// refresh makes the rows anew when a run or who is connected has changed: who is
// connected first, then who was active last.
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
		row := rowOf(by, agentKey{strings.TrimSpace(cmp.Or(host, "agent") + " " + r.RequestedBy.Client.Version), r.RequestedBy.Who, r.Workspace, r.Side})
		if row.runs == 0 {
			row.first, row.last = r.CreatedAt, r.UpdatedAt
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
	for _, c := range p.connected {
		row := rowOf(by, agentKey{strings.TrimSpace(c.Client.Name + " " + c.Client.Version), c.Who, c.Workspace, core.SideClient})
		row.connected = append(row.connected, c)
	}
	p.list = p.list[:0]
	for _, row := range by {
		p.list = append(p.list, *row)
	}
	slices.SortFunc(p.list, func(a, b agentRow) int {
		return cmp.Or(cmp.Compare(min(len(b.connected), 1), min(len(a.connected), 1)), b.last.Compare(a.last), cmp.Compare(a.client, b.client), cmp.Compare(a.folder, b.folder), cmp.Compare(a.who, b.who), cmp.Compare(a.side, b.side))
	})
}

// rowOf is the row of an agent, made when it is asked for first.
func rowOf(by map[agentKey]*agentRow, k agentKey) *agentRow {
	row := by[k]
	if row == nil {
		row = &agentRow{agentKey: k}
		by[k] = row
	}
	return row
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
		if act == keys.Open {
			return []Intent{firstSteps[0].intent}, true // pml init
		}
		return nil, false
	}
	r := p.list[p.at()]
	switch act {
	case keys.Open:
		if r.runs == 0 {
			return []Intent{say{Note, r.client + " has begun no run yet"}}, true
		}
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

// runsOf has the list of runs show those of an agent, with the cursor on the first.
func (s *Screen) runsOf(k agentKey, e *Env) {
	name, _, _ := strings.Cut(k.client, " ")
	f, err := state.ParseFilter(`"`+strings.ReplaceAll(name, `"`, "")+`" "`+strings.ReplaceAll(k.folder, `"`, "")+`"`, state.RunKeys...)
	if err == nil {
		p := s.panels[PanelWorkflows].(*workflowsPanel)
		p.filter = f
		if ids := p.ids(e); len(ids) > 0 {
			p.selectRow(0, ids, e)
		}
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
	if len(p.list) == 0 {
		return []keys.Action{keys.Open, keys.Palette}
	}
	return []keys.Action{keys.Open, keys.CopyID, keys.Palette}
}

// The columns of the list of agents.
const (
	hoClient = iota
	hoFolder
	hoProcess
	hoRuns
	hoWaits
	hoSince
	hoLast
)

func (p *hostsPanel) draw(a paint.Area, e *Env, focus bool) {
	p.refresh(e)
	in := a.Frame(paint.Title{Left: "8 Hosts", Right: itoa(len(p.connected)) + " connected, " + plural(len(p.list), "agent"), Focus: focus})
	if p.err != "" {
		in.Put(0, 0, paint.Style{Role: paint.Danger}, e.Theme.Glyph.Failed+" cannot tell who is connected: "+p.err)
		in = in.Sub(0, 1, in.W, in.H-1)
	}
	if len(p.list) == 0 {
		for i, l := range paint.Wrap("This is where the agents stand that work through pml. None is connected, and none has begun a run yet. "+keyOf(e, keys.Open)+" runs pml init, which tells Claude Code, Cursor and other hosts of pml; then ask your agent to use it.", in.W) {
			in.Put(0, i, paint.Style{Role: paint.Muted}, l)
		}
		return
	}
	in, detail := listAndDetail(in, 8)
	cols := widget.PlaceColumns([]widget.Column{
		hoClient: {Title: "CLIENT", Width: 18, Grow: true}, hoFolder: {Title: "FOLDER", Width: 14, Grow: true}, hoProcess: {Title: "CONNECTED", Width: 12},
		hoRuns:  {Title: "RUNS", Width: 13, Drop: 2},
		hoWaits: {Title: "WAITS FOR", Width: 20, Grow: true}, hoSince: {Title: "SINCE", Width: 5, Drop: 1}, hoLast: {Title: "LAST", Width: 5, Drop: 3},
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
	if detail.H > 0 {
		drawAgentDetail(detail, p.list[at], e)
	}
}

// drawAgentDetail says of an agent what its row has no room for.
func drawAgentDetail(in paint.Area, r agentRow, e *Env) {
	in.Rule(0, core.Visible(r.client+" ("+r.who+")", 80, false))
	y := 1
	fact := func(label, text string, style paint.Style) {
		if text != "" {
			labelled(label, text, style)(in.Sub(0, y, in.W, 1))
			y++
		}
	}
	fact("folder", core.Visible(r.folder, 400, false), paint.Style{})
	if len(r.connected) > 0 {
		fact("connected", r.process()+", since "+clockText(r.since(), e), paint.Style{})
	}
	if r.runs > 0 {
		fact("runs", itoa(r.runs)+", "+itoa(r.active)+" active, the last "+ageText(e.Now.Sub(r.last))+" ago", paint.Style{})
	}
	for _, a := range e.State.Waiting(e.Now) {
		if y < in.H && slices.Contains(r.waiting, a.RunID) {
			fact("waits for", asksText(a)+" ("+e.State.Name(a.RunID)+")", paint.Style{Role: paint.Warn})
		}
	}
}

func (p *hostsPanel) drawAgent(in paint.Area, y int, cols []widget.Column, r agentRow, e *Env) {
	muted := paint.Style{Role: paint.Muted}
	cols[hoClient].Text(in, y, paint.Style{}, core.Visible(r.client+" ("+r.who+")", 80, false))
	folder := path.Base(strings.ReplaceAll(r.folder, `\`, "/"))
	if r.side == core.SideServer {
		folder += ", server"
	}
	cols[hoFolder].Text(in, y, paint.Style{}, core.Visible(folder, 80, false))
	cols[hoProcess].Text(in, y, paint.Style{Role: paint.OK}, r.process())
	runs := itoa(r.runs)
	if r.active > 0 {
		runs += ", " + itoa(r.active) + " active"
	}
	cols[hoRuns].Text(in, y, muted, runs)
	cols[hoWaits].Text(in, y, paint.Style{Role: paint.Warn}, waitsText(r.waiting, e))
	cols[hoSince].Text(in, y, muted, ageText(e.Now.Sub(r.since())))
	if r.runs > 0 {
		cols[hoLast].Text(in, y, muted, ageText(e.Now.Sub(r.last)))
	}
}

// waitsText says what runs wait for: that which expires first.
func waitsText(runs []core.ID, e *Env) string {
	for _, a := range e.State.Waiting(e.Now) {
		if slices.Contains(runs, a.RunID) {
			text := asksText(a)
			if len(runs) > 1 {
				text += " and " + itoa(len(runs)-1) + " more"
			}
			return text
		}
	}
	return ""
}

// asksText is the type of an approval and what it asks for; a layer's text names it.
func asksText(a core.Approval) string {
	if _, ok := gateLayer(&a); ok {
		return whatText(a)
	}
	return typeName(a.Type) + " " + whatText(a)
}

// hintWord implements wording.
func (p *hostsPanel) hintWord(act keys.Action, _ *Env) string {
	switch {
	case act == keys.CopyID:
		return "copy folder"
	case act == keys.Open && len(p.list) == 0:
		return "pml init"
	}
	return ""
}

// ownersText names the other processes of pml in which a server runs, empty for none.
func ownersText(s api.ServerInfo) string {
	var owners []string
	for _, p := range s.Elsewhere {
		text := ownerText(p)
		if !slices.Contains(owners, text) {
			owners = append(owners, text)
		}
	}
	return strings.Join(owners, ", ")
}

// ownerText names the process of pml that a server's process belongs to.
func ownerText(p api.ServerProcess) string {
	text := "pml " + itoa(p.Owner)
	switch {
	case p.Log != "":
		return "pml's background server (" + text + ")"
	case p.Serves:
		return "pml serve (" + text + ")"
	case p.Client.Name != "":
		text += " (" + core.Visible(p.Client.Name, 60, false) + ")"
	}
	return text
}
