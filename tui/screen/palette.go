package screen

import (
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/tui/decide"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/widget"
)

// verb is a command line of pml that the palette offers. RUN and APPROVAL in it
// stand for what is selected; needs is what must be typed behind it.
type verb struct {
	line, what, needs string
	about             bool // the id of what is selected ends its line
}

// verbs are what the palette offers. None of them decides: enter must not.
var verbs = []verb{
	{line: "run ", what: "run a script or a DAG; what it asks comes to the inbox", needs: "a file, such as first.ts"},
	{line: "workflows ls", what: "list the runs"},
	{line: "workflows show RUN", what: "all of this run"},
	{line: "workflows result RUN", what: "what it returned"},
	{line: "workflows logs RUN", what: "what it logged"},
	{line: "workflows rm RUN", what: "delete it, once it has ended"},
	{line: "retry RUN", what: "run its failed tasks again"},
	{line: "abort RUN --reason ", what: "end it", needs: "why, in quotes"},
	{line: "replan RUN --requirement ", what: "add tasks to it, in words", needs: "what else is to be done, in quotes"},
	{line: "halt", what: "no run begins another call, here and on the server"},
	{line: "resume", what: "let calls go on after a halt"},
	{line: "approvals ls", what: "what waits"},
	{line: "approvals ls --all", what: "what waits, and what was decided"},
	{line: "approvals show APPROVAL", what: "all of this approval"},
	{line: "approvals extend APPROVAL", what: "give it more time"},
	{line: "approvals renew APPROVAL", what: "ask again for what expired"},
	{line: "audit ls", what: "decisions, newest first"},
	{line: "audit verify", what: "check that the audit log is whole"},
	{line: "audit export", what: "the audit log as JSON"},
	{line: "events --run RUN", what: "what happened in this run"},
	{line: "servers ls", what: "MCP servers, and how they are"},
	{line: "servers add ", what: "add an MCP server; it shows the change and asks first", needs: "a name, -- and its command, such as notes -- npx -y @scope/notes"},
	{line: "servers import", what: "take over the servers of your agents' hosts; it asks first"},
	{line: "servers check", what: "start each server and list its tools"},
	{line: "flows ls", what: "hook flows, which check calls"},
	{line: "flows validate", what: "what is wrong with hook flows"},
	{line: "tools ls", what: "tools of all servers"},
	{line: "tools search ", what: "find a tool", needs: "words that the tool is about"},
	{line: "permissions ls", what: "what is allowed, asked about and denied, and by which rule"},
	{line: "permissions allow ", what: "write a rule that allows a tool; it asks first", needs: "a tool or a pattern, such as files:*"},
	{line: "permissions ask ", what: "write a rule that asks about a tool each time; it asks first", needs: "a tool or a pattern, such as files:*"},
	{line: "permissions deny ", what: "write a rule that denies a tool; it asks first", needs: "a tool or a pattern, such as files:*"},
	{line: "permissions rm ", what: "remove a rule; it asks first", needs: "a pattern, or choose one of those below"},
	{line: "trust", what: "trust what this folder configures; it shows that and asks first"},
	{line: "config show", what: "the configuration, and where it is from"},
	{line: "server status", what: "the pml server"},
	{line: "doctor", what: "what is wrong here"},
	{line: "help ", what: "the help of a command"},
	{line: "version", what: "the version of pml"},
}

// cannot are commands that would take the terminal away from this one.
var cannot = []string{"tui", "serve", "mcp"}

// asking are words of commands that change what cannot be changed back.
var asking = []string{"continue", "abort", "replan", "retry", "rm", "prune", "stop", "trust"}

// palette runs command lines of pml.
type palette struct {
	run    core.ID // that the lines are about
	input  widget.Input
	cursor int // of the offers, -1: what was typed
	err    string
	scroll widget.Scroll
	back   int                  // how many lines before the newest that was run is in the input, plus one; 0: none
	rules  []api.PermissionRule // there are; asked says that they were asked for
	asked  bool
	// servers has those that need something; loading says that they were asked for.
	servers *serversPanel
	loading bool
}

// newPalette offers lines about the run under the cursor: that of the approval
// where approvals have the focus.
func newPalette(focus PanelID, servers *serversPanel, e *Env) overlay {
	p := &palette{run: e.Sel.Run, cursor: -1, servers: servers}
	if a, ok := e.State.Approval(e.Sel.Approval); ok && focus == PanelApprovals {
		p.run = a.RunID
	}
	return p
}

func (p *palette) typing() bool { return true }

// offers are the verbs that go with what was typed, with the ids of what is
// selected in them.
func (p *palette) offers(e *Env) []verb {
	words := strings.Fields(strings.TrimPrefix(strings.ToLower(p.input.Text), "pml "))
	typed := strings.Join(words, " ")
	if strings.HasSuffix(p.input.Text, " ") && typed != "" {
		typed += " "
	}
	var begin, within []verb
	for _, v := range slices.Concat(verbs, p.serverVerbs(), p.ruleVerbs()) {
		line, ok := filled(v.line, p.run, e)
		if !ok || !p.applies(v.line, e) {
			continue
		}
		v.about = line != v.line && !strings.HasSuffix(line, " ")
		v.line = line
		low := strings.ToLower(line)
		switch {
		case strings.HasPrefix(low, typed):
			begin = append(begin, v)
		case matchesAll(low+" "+v.what, words):
			within = append(within, v)
		}
	}
	return append(begin, within...)
}

// applies reports whether a verb can do something with what is selected, as it is now.
func (p *palette) applies(line string, e *Env) bool {
	r, _ := e.State.Run(p.run)
	a, _ := e.State.Approval(e.Sel.Approval)
	switch words := strings.Fields(line); strings.Join(words[:min(len(words), 2)], " ") {
	case "abort RUN":
		return !r.State.Final()
	case "replan RUN":
		return !r.State.Final() && r.Kind == core.KindDAG
	case "retry RUN":
		return r.State == core.RunFailed && !r.FaultOfProgram()
	case "workflows result", "workflows rm":
		return r.State.Final()
	case "approvals extend":
		return a.StateAt(e.Now) == core.ApprovalOpen && a.ExpiresAt != nil
	case "approvals renew":
		return a.StateAt(e.Now) == core.ApprovalExpired
	case "halt":
		return len(e.State.Halts) == 0
	case "resume":
		return len(e.State.Halts) > 0
	}
	return true
}

// at is the offer that enter takes: the one that was gone to, the only one whose second word was
// begun, or the first one where what was typed begins with no command of pml. It is -1 for what
// was typed.
func (p *palette) at(offers []verb, e *Env) int {
	words := strings.Fields(strings.TrimPrefix(strings.TrimSpace(p.input.Text), "pml "))
	if i := begun(offers, words); p.cursor < 0 && i >= 0 {
		return i
	}
	if p.cursor >= 0 || len(words) == 0 || len(offers) == 0 || strings.HasPrefix(words[0], "-") || slices.Contains(cannot, words[0]) ||
		slices.Contains(e.commands, words[0]) || slices.ContainsFunc(verbs, func(v verb) bool { return strings.Fields(v.line)[0] == words[0] }) {
		return min(p.cursor, len(offers)-1)
	}
	return 0
}

// begun is the place of the only offer that goes on with what was typed: with the letters of its
// second word, as in "tools l", or with the id of what is selected; else -1.
func begun(offers []verb, words []string) int {
	at, n := -1, 0
	for i, o := range offers {
		line := strings.Fields(o.line)
		second := len(words) == 2 && len(line) > 1 && line[0] == words[0] && line[1] != words[1] && strings.HasPrefix(line[1], words[1])
		if second || o.about && len(line) == len(words)+1 && slices.Equal(line[:len(words)], words) {
			at, n = i, n+1
		}
	}
	if n != 1 {
		return -1
	}
	return at
}

// filled puts the ids of what is selected into a line; ok is false where it
// needs one and nothing is selected.
func filled(line string, run core.ID, e *Env) (text string, ok bool) {
	for word, id := range map[string]core.ID{"RUN": run, "APPROVAL": e.Sel.Approval} {
		if !strings.Contains(line, word) {
			continue
		}
		if id == "" {
			return "", false
		}
		line = strings.Replace(line, word, id.Short(), 1)
	}
	return line, true
}

func (p *palette) key(k keys.Key, e *Env) ([]Intent, bool) {
	offers := p.offers(e)
	p.cursor = p.at(offers, e)
	if k.Paste {
		p.edit(k)
		return p.load(), false
	}
	switch k.Name {
	case "esc":
		return nil, true
	case "up", "ctrl+p":
		if p.cursor < 0 {
			p.recall(p.back+1, e)
			return p.load(), false
		}
		p.cursor--
	case "down", "ctrl+n":
		if p.back > 0 {
			p.recall(p.back-1, e)
			return nil, false
		}
		p.cursor = min(p.cursor+1, len(offers)-1)
	case "tab":
		p.complete(offers)
		return p.load(), false
	case "ctrl+y":
		return []Intent{Copy{What: "a command", Text: "pml " + p.line(offers)}}, false
	case "enter":
		return p.enter(offers, e)
	default:
		p.edit(k)
		return p.load(), false
	}
	return nil, false
}

func (p *palette) edit(k keys.Key) {
	if p.input.Key(k) {
		p.cursor, p.err, p.back = -1, "", 0
	}
}

// recall puts a line into the input that was run from the palette, 1 being the newest; 0 empties it again.
func (p *palette) recall(back int, e *Env) {
	if back > len(*e.ran) {
		return
	}
	text := ""
	if back > 0 {
		text = (*e.ran)[len(*e.ran)-back]
	}
	p.input, p.err, p.back = widget.Input{Text: text, At: len(text)}, "", back
}

// ranLines is how many lines the palette remembers, as long as the program runs.
const ranLines = 100

// remember keeps a line that is run, once.
func remember(line string, e *Env) {
	all := append(slices.DeleteFunc(*e.ran, func(o string) bool { return o == line }), line)
	*e.ran = all[max(len(all)-ranLines, 0):]
}

// line is what enter would run.
func (p *palette) line(offers []verb) string {
	if p.cursor >= 0 && p.cursor < len(offers) {
		return strings.TrimSpace(offers[p.cursor].line)
	}
	return strings.TrimPrefix(strings.TrimSpace(p.input.Text), "pml ")
}

// complete takes the selected offer over, or as much as all offers share.
func (p *palette) complete(offers []verb) {
	if len(offers) == 0 {
		return
	}
	text := offers[max(p.cursor, 0)].line
	if p.cursor < 0 {
		for _, o := range offers {
			n := 0
			for n < len(text) && n < len(o.line) && text[n] == o.line[n] {
				n++
			}
			text = text[:n]
		}
		if len(text) <= len(p.input.Text) {
			text = offers[0].line
		}
	}
	p.input, p.cursor, p.err = widget.Input{Text: text, At: len(text)}, -1, ""
}

// unfinished is the place of an offer that cannot run as it is and was chosen, or typed out; -1 for what can run.
func (p *palette) unfinished(offers []verb) int {
	if p.cursor >= 0 && p.cursor < len(offers) && strings.HasSuffix(offers[p.cursor].line, " ") {
		return p.cursor
	}
	return slices.IndexFunc(offers, func(o verb) bool { return o.needs != "" && strings.TrimSpace(o.line) == p.line(offers) })
}

// enter runs the line. An offer that is not complete is only taken over, and what
// cannot be taken back is asked for once more.
func (p *palette) enter(offers []verb, e *Env) ([]Intent, bool) {
	if i := p.unfinished(offers); i >= 0 {
		p.cursor = i
		p.complete(offers)
		if needs := offers[i].needs; needs != "" {
			p.err = "type " + needs
		}
		return p.load(), false
	}
	line := p.line(offers)
	words := strings.Fields(line)
	if len(words) == 0 {
		return nil, true
	}
	if halted := len(e.State.Halts) > 0; line == "halt" && !halted || line == "resume" && halted {
		return []Intent{openOverlay{haltDialog(e)}}, true
	}
	if slices.Contains(cannot, words[0]) {
		p.err = "pml " + words[0] + " needs a terminal of its own"
		return nil, false
	}
	remember(line, e)
	asks := slices.Contains([]string{"permissions", "servers", "flows"}, words[0]) || line == "trust" // they ask by themselves
	if !asks && slices.ContainsFunc(words, func(w string) bool { return slices.Contains(asking, w) }) {
		return []Intent{openOverlay{&confirm{
			title: "Run this?", text: "pml " + line,
			yes: func(*Env) []Intent { return []Intent{Command{line}} },
		}}}, true
	}
	return []Intent{Command{line}}, true
}

func footOfPalette(e *Env) string {
	foot := "enter run   tab complete   ctrl+y copy   esc close"
	if len(*e.ran) > 0 {
		foot = "up what was run   " + foot
	}
	return foot
}

func (p *palette) draw(a paint.Area, e *Env) {
	offers := p.offers(e)
	at := p.at(offers, e)
	box := popup(a, 90, min(a.H-6, 24))
	in := box.Frame(paint.Title{Left: "Palette", Foot: footOfPalette(e), Focus: true})
	x := in.Text(0, 0, in.W, paint.Style{Role: paint.Accent}.Bold(), ": pml ")
	p.input.Draw(in, x, 0, in.W-x, paint.Style{})
	if p.err != "" {
		in.Text(0, 1, in.W, paint.Style{Role: paint.Danger}, e.Theme.Glyph.Failed+" "+p.err)
	}
	list := in.Sub(0, 2, in.W, in.H-2)
	p.scroll.Show(at, len(offers), list.H)
	what := list.W / 2
	if list.W < 50 { // the line is what enter runs
		what = 0
	}
	for y := 0; y < list.H && p.scroll.Top+y < len(offers); y++ {
		o := offers[p.scroll.Top+y]
		line := o.line
		if o.needs != "" { // enter completes it
			line += e.Theme.Glyph.More
		}
		list.Text(2, y, list.W-what-4, paint.Style{}, line)
		list.Text(list.W-what, y, what, paint.Style{Role: paint.Muted}, o.what)
		if p.scroll.Top+y == at {
			widget.DrawCursor(list, y, true)
		}
	}
	if len(offers) == 0 {
		list.Text(0, 0, list.W, paint.Style{Role: paint.Muted}, "no offer; enter runs what was typed")
	}
}

// removeRule begins the lines of the palette that remove a rule.
const removeRule = "permissions rm "

// ShowRules gives the palette, where it is open, the rules that LoadRules asked for.
func ShowRules(s *Screen, rules []api.PermissionRule) {
	if p, ok := s.top().(*palette); ok {
		p.rules = rules
	}
}

// load asks for the rules once somebody wants to remove one, and for the servers once a command is
// about them.
func (p *palette) load() (out []Intent) {
	text := strings.TrimPrefix(strings.TrimSpace(strings.ToLower(p.input.Text)), "pml ")
	if !p.asked && strings.HasPrefix(text, strings.TrimSpace(removeRule)) {
		p.asked = true
		out = append(out, LoadRules{})
	}
	if !p.loading && !p.servers.read && strings.HasPrefix(text, "servers") {
		p.loading = true
		out = append(out, LoadServers{})
	}
	return out
}

// serverVerbs are the lines that decide what servers need, one for each that needs something.
func (p *palette) serverVerbs() (out []verb) {
	for _, s := range p.servers.list {
		if s.State != api.ServerNeeds || len(s.Needs) == 0 {
			continue
		}
		act := "install"
		if s.Needs[0].Type == core.ApproveOAuth {
			act = "connect"
		}
		out = append(out, verb{line: decide.Shell([]string{"servers", act, s.Name}), what: "decide what it needs: " + core.Visible(s.Needs[0].Description, 100, false)})
	}
	return out
}

// ruleVerbs are the lines that remove the rules there are, one each.
func (p *palette) ruleVerbs() (out []verb) {
	for _, r := range p.rules {
		args := []string{"permissions", "rm", r.Tool, "--list", r.List}
		text := map[string]string{"allow": "allows it", "ask": "asks about it", "deny": "denies it"}[r.List]
		if r.Where != "" {
			args = append(args, "--where", r.Where)
			text += " where " + core.Visible(r.Where, 60, false)
		}
		if r.From == "home" {
			args = append(args, "--for-all")
			text += ", in all workspaces"
		}
		out = append(out, verb{line: decide.Shell(args), what: "removes what " + text})
	}
	return out
}
