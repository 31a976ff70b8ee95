package setup

import (
	"github.com/casys-ai/pml/core/api"
)

// byHand are the entries of pml in the files of hosts that pml has not added. A file that
// cannot be read has none that anybody could name.
func (hs *Hosts) byHand() ([]api.HostChange, error) {
	done, err := hs.registrations()
	if err != nil {
		return nil, err
	}
	out := []api.HostChange{}
	for _, t := range append(hs.place().Targets(), hs.place().HookTargets()...) {
		f, err := hs.hostFile(t)
		if err != nil || !f.exists || done.of(t) != nil {
			continue
		}
		program, _, err := hs.hostProgram(t)
		if err != nil {
			program = "pml"
		}
		if have, err := t.Look(f.text, t.Own(program)); err == nil && have.There {
			out = append(out, api.HostChange{Host: t.Host, Title: t.Title, File: t.File, State: api.HostByHand, Entry: have.Name})
		}
	}
	return out, nil
}
