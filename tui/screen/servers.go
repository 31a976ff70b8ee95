package screen

import (
	"fmt"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/widget"
)

// serversPanel shows the MCP servers of the workspace: how they stand, what they need,
// and how their calls went. They are read when the panel is first looked at.
type serversPanel struct {
	list   []api.ServerInfo // by name
	read   bool
	err    string
	name   string // of the server with the cursor
	scroll widget.Scroll
	calls  serverCalls
}

func newServers() *serversPanel { return &serversPanel{} }

// ShowServers takes the servers that LoadServers or CheckServer asked for; those that
// are not among them stay as they were, unless all were asked for.
func (s *Screen) ShowServers(list []api.ServerInfo, all bool, err error) {
	p := s.panels[PanelServers].(*serversPanel)
	if p.read = true; err != nil {
		p.err = core.Visible(err.Error(), 300, false)
		return
	}
	p.err = ""
	if all {
		p.list = slices.Clone(list)
	} else {
		for _, fresh := range list {
			p.list = append(slices.DeleteFunc(p.list, func(o api.ServerInfo) bool { return o.Name == fresh.Name }), fresh)
		}
	}
	slices.SortFunc(p.list, func(a, b api.ServerInfo) int { return strings.Compare(a.Name, b.Name) })
}

// at is the row of the cursor.
func (p *serversPanel) at() int {
	return max(slices.IndexFunc(p.list, func(s api.ServerInfo) bool { return s.Name == p.name }), 0)
}

func (p *serversPanel) do(act keys.Action, e *Env) ([]Intent, bool) {
	n := len(p.list)
	if act == keys.TrustFlows {
		return []Intent{Shell{Args: []string{"trust"}}}, true
	}
	if to, ok := p.scroll.Move(act, p.at(), n); ok {
		if n > 0 {
			p.name = p.list[max(to, 0)].Name
		}
		return nil, true
	}
	if n == 0 {
		return nil, false
	}
	s := p.list[p.at()]
	switch act {
	case keys.Open, keys.ServerLog:
		return []Intent{showText{"servers: " + s.Name, serverText(s)}}, true
	case keys.Restart:
		return []Intent{restart(s)}, true
	case keys.Install:
		return []Intent{Shell{Args: []string{"servers", "install", s.Name}}}, true
	case keys.Connect:
		if s.URL == "" {
			return []Intent{say{Note, s.Name + " is no server at a URL: there is nothing to sign in to"}}, true
		}
		return []Intent{Shell{Args: []string{"servers", "connect", s.Name}}}, true
	case keys.CopyID:
		return []Intent{Copy{What: "a name", Text: s.Name}}, true
	case keys.CopyAll:
		return []Intent{Copy{What: "the JSON of " + s.Name, Text: indented(s)}}, true
	case keys.CopyCommand:
		return []Intent{Copy{What: "a command", Text: "pml servers check " + s.Name}}, true
	default:
		return nil, false
	}
}

// restart starts a server; one that runs here is ended before, which a person confirms:
// calls that it is in fail.
func restart(s api.ServerInfo) Intent {
	here := s.Health != nil && s.Health.PID != 0 && s.Health.State != "stopped"
	text, owners := "", ownersText(s)
	switch p := served(s); {
	case here:
		text = fmt.Sprintf("Its process here, %d, is ended and started anew. Calls that it is in fail.", s.Health.PID)
	case p != nil:
		text = fmt.Sprintf("Its process %d in %s is ended and started anew there. Calls that it is in fail.", p.PID, ownerText(*p))
		owners = "" // of no process that goes on
	default:
		return CheckServer{Name: s.Name, Owners: ownersText(s)}
	}
	name := core.Visible(s.Name, 60, false)
	return openOverlay{&confirm{
		title: "Restart " + name + "?",
		text:  text,
		yes:   func(*Env) []Intent { return []Intent{CheckServer{Name: s.Name, Owners: owners, Anew: true}} },
	}}
}

func (p *serversPanel) click(_, y int, _ *Env) []Intent {
	if row := p.scroll.Top + y - 2; y >= 2 && y < 2+p.scroll.Height && row < len(p.list) {
		p.name = p.list[row].Name
	}
	return nil
}

func (p *serversPanel) hints(*Env) []keys.Action {
	if len(p.list) == 0 { // nothing to do anything with
		return []keys.Action{keys.Palette}
	}
	var out []keys.Action
	if slices.ContainsFunc(p.list, func(s api.ServerInfo) bool { return s.State == api.ServerNotTrusted }) {
		out = append(out, keys.TrustFlows)
	}
	out = append(out, keys.Open, keys.ServerLog, keys.Restart, keys.Install)
	if p.list[p.at()].URL != "" {
		out = append(out, keys.Connect)
	}
	return append(out, keys.CopyCommand, keys.Palette)
}

// The columns of the list of servers.
const (
	svState = iota
	svName
	svTools
	svCalls
	svTook
	svNeeds
)

func (p *serversPanel) draw(a paint.Area, e *Env, focus bool) {
	p.calls.count(e)
	title := paint.Title{Left: "7 Servers", Right: itoa(len(p.list)), Focus: focus}
	if len(p.list) > 0 {
		title.Right += p.calls.window()
	}
	in := a.Frame(title)
	if len(p.list) == 0 || p.err != "" {
		p.drawNothing(in, e)
		return
	}
	in, detail := listAndDetail(in, 10)
	cols := widget.PlaceColumns([]widget.Column{
		svState: {Title: "STATE", Width: 11}, svName: {Title: "NAME", Width: 12}, svTools: {Title: "TOOLS", Width: 5, Drop: 3},
		svCalls: {Title: "CALLS", Width: 7, Drop: 2}, svTook: {Title: "TOOK", Width: 7, Drop: 1}, svNeeds: {Title: "NEEDS", Width: 14, Grow: true},
	}, 3, in.W-3)
	widget.DrawTitles(in, 0, cols)
	at := p.at()
	p.scroll.Show(at, len(p.list), in.H-1)
	for y := 0; y < p.scroll.Height && p.scroll.Top+y < len(p.list); y++ {
		p.drawServer(in, 1+y, cols, p.list[p.scroll.Top+y], e)
		if p.scroll.Top+y == at {
			widget.DrawCursor(in, 1+y, focus)
		}
	}
	if detail.H > 0 {
		drawServerDetail(detail, p.list[at])
	}
}

func (p *serversPanel) drawNothing(in paint.Area, e *Env) {
	text, style := "No MCP server is configured here. pml servers import takes over those of your agents' hosts,\npml servers add NAME -- COMMAND adds one.", paint.Style{Role: paint.Muted}
	switch {
	case p.err != "":
		text, style.Role = e.Theme.Glyph.Failed+" cannot read the servers: "+p.err, paint.Danger
	case !p.read:
		text = "Reading the servers."
	}
	for i, l := range paint.Wrap(text, in.W) {
		in.Put(0, i, style, l)
	}
}

func (p *serversPanel) drawServer(in paint.Area, y int, cols []widget.Column, s api.ServerInfo, e *Env) {
	word, glyph, style := serverLook(s, e.Theme)
	in.Put(cols[svState].X, y, style, glyph)
	in.Text(cols[svState].X+2, y, cols[svState].Width-2, style, word)
	cols[svName].Text(in, y, paint.Style{}, core.Visible(s.Name, 60, false))
	if s.Tools > 0 {
		cols[svTools].Text(in, y, paint.Style{}, itoa(s.Tools))
	}
	if c := p.calls.of[s.Name]; c.calls > 0 {
		text := itoa(c.calls)
		if c.failed > 0 {
			text += fmt.Sprintf(" %d%s", c.failed, e.Theme.Glyph.Failed)
		}
		cols[svCalls].Text(in, y, paint.Style{}, text)
		cols[svTook].Text(in, y, paint.Style{Role: paint.Muted}, durationText(c.took/float64(c.calls)))
	}
	text, look := needsText(s, e)
	cols[svNeeds].Text(in, y, look, text)
}

// serverLook is the word, the glyph and the style of a server's state. A running
// process is told of before what its configuration says.
func serverLook(s api.ServerInfo, t *paint.Theme) (word, glyph string, style paint.Style) {
	g := &t.Glyph
	switch {
	case s.State == api.ServerFailed:
		return "broken", g.Failed, paint.Style{Role: paint.Danger}
	case s.State == api.ServerNeeds:
		return "needs you", g.Waiting, paint.Style{Role: paint.Warn}
	case s.State == api.ServerNotTrusted:
		return "no trust", g.Waiting, paint.Style{Role: paint.Warn}
	case s.Health != nil && s.Health.State != "stopped":
		return core.Visible(s.Health.State, 12, false), g.Running, paint.Style{Role: paint.Info}
	case served(s) != nil:
		return "running", g.Running, paint.Style{Role: paint.Info}
	case len(s.Elsewhere) > 0:
		return "elsewhere", g.Running, paint.Style{Role: paint.Info}
	case untried(s):
		return "not tried", g.Queued, paint.Style{Role: paint.Muted}
	}
	return "ready", g.Done, paint.Style{Role: paint.OK}
}

// untried reports whether nobody has started or called a server yet: whether it answers
// is not known.
func untried(s api.ServerInfo) bool {
	return s.State == api.ServerReady && s.Kind != "builtin" && s.Tools == 0 && len(s.Changed) == 0 && s.Health == nil
}

// served is the process of a server that pml's own server runs, nil where there is none.
func served(s api.ServerInfo) *api.ServerProcess {
	if i := slices.IndexFunc(s.Elsewhere, func(p api.ServerProcess) bool { return p.Serves }); i >= 0 {
		return &s.Elsewhere[i]
	}
	return nil
}

// needsText is what a server needs, or what is wrong with it, on one line.
func needsText(s api.ServerInfo, e *Env) (string, paint.Style) {
	switch {
	case s.Error != "":
		return inLine(s.Error, 200), paint.Style{Role: paint.Danger}
	case len(s.Needs) > 0:
		parts := make([]string, len(s.Needs))
		for i, n := range s.Needs {
			parts[i] = core.Visible(n.Description, 120, false)
		}
		return strings.Join(parts, "; "), paint.Style{Role: paint.Warn}
	case s.State == api.ServerNotTrusted:
		return keyOf(e, keys.TrustFlows) + ": pml trust", paint.Style{Role: paint.Warn}
	}
	return core.Visible(s.Warning, 200, false), paint.Style{Role: paint.Muted}
}

// logText says where the last words of a server are that runs in pml's own server, where that one
// does not say them.
func logText(p api.ServerProcess) string {
	return "it runs in " + ownerText(p) + ", which has nothing of it yet, or is an older pml;\nwhat it said is in the error of a call that failed: pml workflows show RUN"
}

// serverFacts are what is known of a server, by label.
func serverFacts(s api.ServerInfo) (facts [][2]string) {
	add := func(label, text string) {
		if text != "" {
			facts = append(facts, [2]string{label, text})
		}
	}
	add("runs", strings.Join(s.Command, " "))
	add("url", s.URL)
	add("package", strings.TrimSpace(s.Package+" "+s.Version))
	add("from", strings.TrimSpace(s.Origin+" "+s.File))
	if s.Tools > 0 {
		add("tools", fmt.Sprintf("%d; ':tools ls %s' lists them", s.Tools, s.Name))
	}
	for _, n := range s.Needs {
		add("needs", n.Description)
	}
	add("error", s.Error)
	if h := s.Health; h != nil {
		text := h.State
		if h.PID > 0 {
			text += fmt.Sprintf(", pid %d", h.PID)
		}
		if h.StartMS > 0 {
			text += ", started in " + durationText(h.StartMS)
		}
		add("process", text+"  "+h.Server+" "+h.Protocol)
		if h.Failures > 0 {
			add("failed", fmt.Sprintf("%d times in a row: %s", h.Failures, h.LastError))
		}
	}
	for _, p := range s.Elsewhere {
		if p.Serves {
			add("process", fmt.Sprintf("pid %d, runs in %s", p.PID, ownerText(p)))
		} else {
			add("elsewhere", fmt.Sprintf("pid %d of %s", p.PID, ownerText(p)))
		}
	}
	if served(s) == nil && len(s.Elsewhere) > 0 {
		add("restart", fmt.Sprintf("R starts one here; kill %d when idle, its owner starts it again", s.Elsewhere[0].PID))
	}
	if len(s.Elsewhere) == 0 && untried(s) {
		add("tried", "nobody has called it yet: R tries it")
	}
	if len(s.Next) > 0 {
		add("next", strings.Join(s.Next, " "))
	}
	add("warning", s.Warning)
	return facts
}

// inLine is a text on one line, safe to show.
func inLine(text string, most int) string {
	return core.Visible(strings.Join(strings.Fields(text), " "), most, false)
}

// stderrLines are the last lines that a server wrote on stderr.
func stderrLines(s api.ServerInfo) []string {
	for _, h := range []*api.ServerHealth{s.Health, s.Served} {
		if h != nil && strings.TrimSpace(h.Stderr) != "" {
			return strings.Split(strings.TrimRight(h.Stderr, "\n"), "\n")
		}
	}
	return nil
}

func drawServerDetail(in paint.Area, s api.ServerInfo) {
	in.Rule(0, core.Visible(s.Name, 60, false))
	y := 1
	lines, facts := stderrLines(s), serverFacts(s)
	spare := max(in.H-1-len(facts)-len(lines), 0) // lines that would stay empty
	for _, f := range facts {
		if y >= in.H-min(len(lines), 2) {
			break
		}
		rows := paint.Wrap(inLine(f[1], 1000), in.W-10)
		if len(rows) > 1+spare { // the last one says that there is more
			rows = append(rows[:spare], strings.Join(rows[spare:], " "))
		}
		for i, row := range rows {
			label := f[0]
			if i > 0 {
				label, spare = "", spare-1
			}
			labelled(label, row, paint.Style{})(in.Sub(0, y, in.W, 1))
			y++
		}
	}
	lines = lines[max(len(lines)-(in.H-y), 0):]
	for i, l := range lines {
		label := ""
		if i == 0 {
			label = "stderr"
		}
		labelled(label, core.Visible(l, 400, false), paint.Style{Role: paint.Muted})(in.Sub(0, y+i, in.W, 1))
	}
}

// serverText is all that is known of a server, with its last words.
func serverText(s api.ServerInfo) string {
	var b strings.Builder
	for _, f := range serverFacts(s) {
		text := core.Visible(strings.TrimSpace(f[1]), 4000, true)
		fmt.Fprintf(&b, "%-9s %s\n", f[0], strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", 10)))
	}
	b.WriteString("\nstderr, its last lines\n")
	lines := stderrLines(s)
	switch {
	case lines == nil && strings.Contains(s.Error, "said:\n"):
		b.WriteString("what it wrote stands with the error\n")
	case lines == nil && served(s) != nil:
		b.WriteString(logText(*served(s)) + "\n")
	case lines == nil && s.Health != nil && s.Health.PID != 0:
		b.WriteString("it has written nothing\n")
	case lines == nil:
		b.WriteString("nothing is known of it: R in the list of servers starts it and says what it wrote\n")
	}
	for _, l := range lines {
		b.WriteString(l + "\n")
	}
	return b.String()
}

// serverCalls are the calls of each server, from the events that are known: those from
// before this terminal began are only the newest ones, some thousand of each half.
type serverCalls struct {
	of     map[string]callCount
	seen   int64
	looked int64 // how many events were looked at
}

// window says where the calls were counted. It is no time: events of one half go back
// further than those of the other, and a terminal that begins anew knows fewer.
func (c *serverCalls) window() string {
	switch c.looked {
	case 0:
		return ""
	case 1:
		return "   CALLS counts the newest event"
	}
	return "   CALLS counts the newest " + grouped(c.looked) + " events"
}

// notSent reports whether an error is that of a call which its server never got.
func notSent(err *core.Error) bool {
	return err != nil && (err.NotMade || err.Code == core.CodeDenied || err.Code == core.CodePermissionDenied)
}

type callCount struct {
	calls, failed int
	took          float64 // milliseconds of all calls
}

// count counts what came since it was asked last.
func (c *serverCalls) count(e *Env) {
	n := c.seen
	if first := e.State.FirstEvent(); c.of == nil || n < first { // what lies between is gone
		c.of, c.looked, n = map[string]callCount{}, 0, first
	}
	for ; ; n++ {
		ev, ok := e.State.EventAt(n)
		if !ok {
			break
		}
		c.looked++
		server, _, named := core.SplitTool(ev.Tool)
		if !named || ev.Type != core.EventTaskComplete && ev.Type != core.EventTaskError || notSent(ev.Error) {
			continue
		}
		k := c.of[server]
		if k.calls++; ev.Type == core.EventTaskError {
			k.failed++
		}
		k.took += ev.DurationMS
		c.of[server] = k
	}
	c.seen = n
}
