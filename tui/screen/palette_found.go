package screen

import (
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/tui/decide"
)

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
