package gate

import (
	"maps"
	"slices"

	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/install"
)

// RememberCommands records what the commands of the workspace's servers run, as
// it is now: whoever trusts the workspace has these scripts and programs before
// them, and not those that are there when a server is first started. What was
// recorded before stays, and so does what pml.lock pins: a change asks. What is
// asked about anyway at the first start is not recorded.
//
// A file that is missing now is not recorded, and is asked about once it is
// there. It is called before the trust takes effect.
func (h *Host) RememberCommands() error {
	s, err := h.reader.fresh()
	if err == nil { // what is about to be trusted
		s, err = s.fromFile()
	}
	if err != nil {
		return err
	}
	var news []install.Approval
	for _, name := range slices.Sorted(maps.Keys(s.all.Servers)) {
		e := s.all.Servers[name]
		if e.Origin != env.FromWorkspace || e.Type != env.TypeStdio {
			continue
		}
		found, err := (&server{host: h, set: s, name: name, entry: e}).foundCommand()
		if err != nil { // it cannot be started as it is either
			h.o.Logger.Debug("what a server runs is not recorded with the trust", "server", name, "err", err)
		}
		news = append(news, found...)
	}
	if len(news) == 0 {
		return nil
	}
	return h.o.Installer.Approvals.ApproveAll(news)
}

// foundCommand is what RememberCommands records of one server.
func (s *server) foundCommand() ([]install.Approval, error) {
	resolved, err := s.set.all.Resolve(s.name)
	if err != nil || len(resolved.FromDotEnv) > 0 {
		return nil, err
	}
	spec, err := s.recognize(resolved)
	if err != nil || spec.AnyCode != "" || s.recordedCommand() != "" || s.recordedFile() != "" {
		return nil, err
	}
	out := []install.Approval{{Kind: approvedCommand, Key: s.approvalKey(), Digest: spec.CommandDigest}}
	g, err := s.runs(spec, resolved)
	if err != nil || g.Digest() == "" {
		return out, err
	}
	return append(out, install.Approval{Kind: approvedFile, Key: s.approvalKey(), Digest: g.Digest()}), nil
}
