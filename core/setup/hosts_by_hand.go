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
		if err != nil || !f.exists {
			continue
		}
		names, err := t.Entries(f.text)
		if err != nil {
			continue
		}
		for _, name := range names {
			if name != t.Own("").Name || done.of(t) == nil {
				out = append(out, api.HostChange{Host: t.Host, Title: t.Title, File: t.File, State: api.HostByHand, Entry: name})
			}
		}
	}
	return out, nil
}
