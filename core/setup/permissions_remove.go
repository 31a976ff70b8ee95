package setup

import (
	"context"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/policy"
)

// RemoveRules prepares a change of the workspace's file, or of the home's, without the rules
// that are like one.
func (p *Permissions) RemoveRules(_ context.Context, home bool, like api.PermissionRule) (api.ChangeSet, error) {
	file := p.o.Workspace.Config()
	if home {
		file = p.o.Home.Config()
	}
	before, err := current(file)
	if err != nil {
		return api.ChangeSet{}, err
	}
	after := before
	var about []string
	for _, list := range []string{"deny", "ask", "allow"} {
		for like.List == "" || like.List == list {
			out, gone, found, err := env.RemoveRule(file, after, list, func(r policy.Rule) bool {
				return r.Tool == like.Tool && (like.Where == "" || r.Where == like.Where)
			})
			if err != nil {
				return api.ChangeSet{}, err
			}
			if !found {
				break
			}
			after, about = out, append(about, "no longer "+list+" "+gone.String())
		}
	}
	if len(about) == 0 {
		return api.ChangeSet{}, core.Errorf(core.CodeNotFound, "%s has no such rule for %s", file, core.Visible(like.Tool, 120, false)).WithNext("pml", "permissions", "ls")
	}
	change, err := p.Change(file, before, after)
	change.About = strings.Join(about, ", ")
	return changeSet(change), err
}
