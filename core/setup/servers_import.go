package setup

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/hosts"
)

// knownHosts are the hosts of agents whose files are read.
var knownHosts = []string{"claude-code", "claude-desktop", "vscode", "cursor", "codex", "mcp.json"}

// ImportServers prepares to take over servers from the files of agent hosts.
// Entries that are configured already stay unless the request says otherwise;
// of several with one name the first is taken. What is left out is in the
// notes. Errors: core.CodeInvalidArguments for a host or file that is not
// there, core.CodeNoSuchTool for a name that is in none of the files.
func (s *Servers) ImportServers(_ context.Context, req api.ImportRequest) (api.Import, error) {
	found, faults, err := s.findHosts(req.From)
	if err != nil {
		return api.Import{}, err
	}
	a, err := s.newAddition(req.Home)
	if err != nil {
		return api.Import{}, err
	}
	if err := named(req.Names, found); err != nil {
		return api.Import{}, err
	}
	out := api.Import{Sources: []api.ImportSource{}}
	taken := map[string]string{}
	for _, f := range found {
		src := api.ImportSource{Host: f.Host, File: f.File, Servers: []string{}, Skipped: f.Skipped}
		for _, e := range f.Entries {
			src.Servers = append(src.Servers, e.Name)
			if len(req.Names) > 0 && !slices.Contains(req.Names, e.Name) {
				continue
			}
			why, err := a.importOne(e, f, taken, req.Replace)
			if err != nil {
				return api.Import{}, err
			}
			switch {
			case why != "":
				src.Skipped = append(src.Skipped, e.Name+": "+why)
			case len(e.Secrets) > 0:
				a.notes = append(a.notes, fmt.Sprintf("%s still has the keys of %s: take the server out there once pml has it", f.File, e.Name))
			}
		}
		out.Sources = append(out.Sources, src)
		a.notes = append(a.notes, f.Notes...)
	}
	for _, f := range faults {
		a.notes = append(a.notes, "not read: "+f.String())
	}
	out.ChangeSet, err = a.changes()
	return out, err
}

// importOne takes an entry over, or says why not.
func (a *addition) importOne(e hosts.Entry, from hosts.Found, taken map[string]string, replace bool) (why string, err error) {
	if first, ok := taken[e.Name]; ok {
		return "the one of " + first + " comes first", nil
	}
	if err := a.check(e); err != nil {
		return core.AsError(err).Error(), nil
	}
	taken[e.Name] = from.File
	if old, exists := a.have[e.Name]; exists {
		switch {
		case sameEntry(old, a.renamed(e)):
			return "it is configured like this already", nil
		case !replace:
			return "another one is configured; --replace takes this one", nil
		}
	}
	for _, key := range e.Keys {
		a.notes = append(a.notes, fmt.Sprintf("%s needs %s in .env or the environment: the host asked for it each time", e.Name, key))
	}
	return "", a.add(e)
}

// place is where hosts keep their files for this person and this workspace.
func (b *base) place() hosts.Place {
	place := hosts.Place{Workspace: b.o.Workspace.Dir, GOOS: runtime.GOOS, Environ: b.o.Environ}
	place.Home, _ = b.o.Environ("HOME")
	if runtime.GOOS == "windows" {
		place.Home, _ = b.o.Environ("USERPROFILE")
	}
	return place
}

// findHosts reads the files of a host, of all of them, or one file.
func (s *Servers) findHosts(from string) ([]hosts.Found, []core.Fault, error) {
	place := s.place()
	if from != "" && !slices.Contains(knownHosts, from) {
		file, err := filepath.Abs(from)
		if err != nil {
			return nil, nil, core.Errorf(core.CodeInvalidArguments, "cannot find %s: %w", core.Visible(from, 200, false), err)
		}
		f, err := hosts.Read(place, file)
		if core.CodeOf(err) == core.CodeInvalidArguments {
			return nil, nil, core.Errorf(core.CodeInvalidArguments, "%s is neither a file nor a host that pml knows (%s)%s",
				core.Visible(from, 200, false), strings.Join(knownHosts, ", "), core.Suggest(from, knownHosts))
		}
		if err != nil {
			return nil, nil, err
		}
		return []hosts.Found{f}, nil, nil
	}
	found, faults := hosts.Find(place)
	if from == "" {
		return found, faults, nil
	}
	found = slices.DeleteFunc(found, func(f hosts.Found) bool { return f.Host != from })
	if len(found) == 0 && len(faults) == 0 {
		return nil, nil, core.Errorf(core.CodeInvalidArguments, "%s has no MCP servers here: none of its files names one; name a file instead", from)
	}
	return found, faults, nil
}

// named refuses names of servers that no file has.
func named(names []string, found []hosts.Found) error {
	known := map[string]bool{}
	for _, f := range found {
		for _, e := range f.Entries {
			known[e.Name] = true
		}
	}
	for _, name := range names {
		if !known[name] {
			return core.Errorf(core.CodeNoSuchTool, "no file names a server %q that can be taken over%s",
				core.Visible(name, 60, false), core.Suggest(name, slices.Sorted(maps.Keys(known)))).WithNext("pml", "servers", "import")
		}
	}
	return nil
}
