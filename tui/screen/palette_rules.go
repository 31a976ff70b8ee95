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

// loadRules asks for the rules once somebody wants to remove one.
func (p *palette) loadRules() []Intent {
	text := strings.TrimPrefix(strings.TrimSpace(strings.ToLower(p.input.Text)), "pml ")
	if p.asked || !strings.HasPrefix(text, strings.TrimSpace(removeRule)) {
		return nil
	}
	p.asked = true
	return []Intent{LoadRules{}}
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
		out = append(out, verb{decide.Shell(args), "removes what " + text, ""})
	}
	return out
}
