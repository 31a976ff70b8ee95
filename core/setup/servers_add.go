package setup

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/hosts"
	"github.com/casys-ai/pml/core/launch"
)

// AddServer prepares the entry of a server, with its keys in .env. What could
// not be run is refused at once: core.CodeInvalidArguments for an entry that
// is malformed, or of a name that has another one (unless it replaces that), core.CodeInvalidConfig for
// a command of npx that pml does not understand.
func (s *Servers) AddServer(_ context.Context, e api.ServerEntry) (api.ChangeSet, error) {
	if err := checkAddress(e.URL); err != nil {
		return api.ChangeSet{}, err
	}
	a, err := s.newAddition(e.Home)
	if err != nil {
		return api.ChangeSet{}, err
	}
	entry := hosts.Conceal(hosts.Entry{Name: e.Name, Command: e.Command, Args: e.Args, Env: e.Env, URL: e.URL, Headers: e.Headers, OAuth: e.OAuth})
	if err := a.check(entry); err != nil {
		return api.ChangeSet{}, err
	}
	switch old, exists := a.have[e.Name]; {
	case exists && sameEntry(old, a.renamed(entry)):
		return api.ChangeSet{Notes: []string{fmt.Sprintf("%s is configured like this already in %s", e.Name, a.file)}}, nil
	case exists && !e.Replace:
		return api.ChangeSet{}, core.Errorf(core.CodeInvalidArguments, "%s has a server %s already, which is another one; add --replace to put this one in its place, or give it another name", a.file, e.Name).
			WithNext("pml", "servers", "add", "--help")
	}
	if err := a.add(entry); err != nil {
		return api.ChangeSet{}, err
	}
	return a.changes()
}

// RemoveServers prepares the removal of servers, each from the file that defines it: the
// workspace's, else the home's. Of names that are not configured nothing is prepared, and
// the error has all of them.
func (s *Servers) RemoveServers(_ context.Context, names ...string) (api.ChangeSet, error) {
	cfg, err := s.load()
	if err != nil {
		return api.ChangeSet{}, err
	}
	if err := unconfigured(cfg, names); err != nil {
		return api.ChangeSet{}, err
	}
	home, _ := s.serversIn(s.o.Home.Config()) // one that cannot be read has none behind another
	byFile := map[string][]string{}
	var notes []string
	s.mu.Lock()
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		e := cfg.Servers[name]
		byFile[e.File] = append(byFile[e.File], name)
		s.removing[name] = addressOf(cfg, name)
		if _, behind := home[name]; behind && e.Origin == env.FromWorkspace {
			notes = append(notes, fmt.Sprintf("%s has a server %s as well, which then counts", s.o.Home.Config(), name))
		}
	}
	s.mu.Unlock()
	var changes []api.Change
	for _, file := range slices.Sorted(maps.Keys(byFile)) {
		ch, err := s.without(file, byFile[file])
		if err != nil {
			return api.ChangeSet{}, err
		}
		changes = append(changes, ch)
	}
	set := changeSet(changes...)
	set.Notes = notes
	return set, nil
}

// without is the change that takes servers out of a file.
func (s *Servers) without(file string, names []string) (api.Change, error) {
	before, err := current(file)
	if err != nil {
		return api.Change{}, err
	}
	after, about := before, make([]string, len(names))
	for i, name := range names {
		if after, err = env.RemoveServer(file, after, name); err != nil {
			return api.Change{}, err
		}
		about[i] = "no longer the server " + core.Visible(name, 60, false)
	}
	ch, err := s.Change(file, before, after)
	ch.About = strings.Join(about, ", ")
	return ch, err
}

// unconfigured is the error that names all servers that are not configured.
func unconfigured(cfg *env.Config, names []string) error {
	var wrong []string
	for _, name := range names {
		if _, ok := cfg.Servers[name]; !ok {
			wrong = append(wrong, fmt.Sprintf("%q%s", core.Visible(name, 60, false), core.Suggest(name, slices.Sorted(maps.Keys(cfg.Servers)))))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	nothing := ""
	if len(names) > 1 {
		nothing = "; nothing was removed"
	}
	return core.Errorf(core.CodeNoSuchTool, "no MCP server %s is configured%s", strings.Join(wrong, ", none "), nothing).WithNext("pml", "servers", "ls")
}

// checkAddress refuses a URL to which keys would be sent in the clear.
func checkAddress(address string) error {
	u, err := url.Parse(address)
	if address == "" || strings.Contains(address, "${") && !strings.HasPrefix(strings.ToLower(address), "http://") {
		return nil
	}
	if err != nil {
		return core.Errorf(core.CodeInvalidArguments, "the URL of the server cannot be understood; it begins with https:// and names a host")
	}
	ip := net.ParseIP(u.Hostname())
	if strings.EqualFold(u.Scheme, "http") && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return core.Errorf(core.CodeInvalidArguments, "the server is reached over http, so that what is sent to it, keys too, could be read on the way; use https, or http to this machine (localhost)")
	}
	return nil
}

// checkEntry refuses what could not be loaded or run.
func checkEntry(e hosts.Entry) error {
	if _, err := env.SetServer("the entry", nil, envEntry(e)); err != nil {
		var faults []string
		for _, f := range core.AsError(err).Faults {
			faults = append(faults, f.Message)
		}
		return core.Errorf(core.CodeInvalidArguments, "the server %s cannot be added: %s", core.Visible(e.Name, 60, false),
			cmp.Or(strings.Join(faults, "; "), core.AsError(err).Message)).WithNext("pml", "servers", "add", "--help")
	}
	if e.Command == "" {
		return nil
	}
	_, err := launch.Recognize(launch.Command{Name: e.Name, Command: e.Command, Args: e.Args})
	return err
}

func envEntry(e hosts.Entry) env.ServerEntry {
	return env.ServerEntry{Name: e.Name, Command: e.Command, Args: e.Args, Env: e.Env, URL: e.URL, Headers: e.Headers, Cwd: e.Cwd, OAuth: e.OAuth}
}

// sameEntry reports whether two entries mean the same.
func sameEntry(old env.ServerEntry, e hosts.Entry) bool {
	return old.Command == e.Command && slices.Equal(old.Args, e.Args) && maps.Equal(old.Env, e.Env) &&
		old.URL == e.URL && maps.Equal(old.Headers, e.Headers) && old.Cwd == e.Cwd && reflect.DeepEqual(old.OAuth, e.OAuth)
}

func (s *Servers) serversIn(file string) (map[string]env.ServerEntry, error) {
	text, err := current(file)
	if err != nil {
		return nil, err
	}
	return env.ServersIn(file, text)
}

// addition collects entries for one configuration file, and their keys for
// .env.
type addition struct {
	c             *Servers
	home          bool
	file          string
	before, after []byte
	have          map[string]env.ServerEntry // in the file as it is
	secrets       map[string]string          // for .env
	dotenv        []byte
	values        map[string]string // of .env as it is
	notes         []string
	added         []string // names, for the audit log
}

func (s *Servers) newAddition(home bool) (*addition, error) {
	a := &addition{c: s, home: home, file: s.o.Workspace.Config(), secrets: map[string]string{}}
	if home {
		a.file = s.o.Home.Config()
	}
	var err error
	if a.before, err = current(a.file); err != nil {
		return nil, err
	}
	if a.have, err = env.ServersIn(a.file, a.before); err != nil {
		return nil, err
	}
	a.after = a.before
	if a.dotenv, err = current(s.o.Workspace.DotEnv()); err != nil {
		return nil, err
	}
	a.values, _ = env.ParseDotEnv(s.o.Workspace.DotEnv(), a.dotenv)
	return a, nil
}

// check refuses what could not be loaded or run, and an entry for all workspaces
// whose key could not get to where it stands; see hosts.Entry.InPlain.
func (a *addition) check(e hosts.Entry) error {
	if err := checkEntry(e); err != nil {
		return err
	}
	keys := e.InPlain()
	if !a.home || len(keys) == 0 {
		return nil
	}
	return core.Errorf(core.CodeInvalidArguments, "the server %s has a key in its arguments or its URL (it would be %s), which an entry for all workspaces takes from the environment alone and no .env can hold; give it in env or a header, or add the server to a workspace",
		core.Visible(e.Name, 60, false), strings.Join(keys, ", ")).WithNext("pml", "servers", "add", "--help")
}

// add puts an entry into the file and its keys aside.
func (a *addition) add(e hosts.Entry) error {
	e = a.renamed(e)
	after, err := env.SetServer(a.file, a.after, envEntry(e))
	if err != nil {
		return err
	}
	a.after = after
	a.added = append(a.added, "the server "+core.Visible(e.Name, 60, false))
	maps.Copy(a.secrets, e.Secrets)
	return nil
}

// renamed gives the keys of an entry names under which nothing else is known:
// a server must not get the key of another one.
func (a *addition) renamed(e hosts.Entry) hosts.Entry {
	for _, name := range slices.Sorted(maps.Keys(e.Secrets)) {
		value := e.Secrets[name]
		fresh := name
		for i := 1; a.taken(fresh, value); i++ {
			fresh = variableName(e.Name + "_" + name)
			if i > 1 {
				fresh += "_" + strconv.Itoa(i)
			}
		}
		if fresh != name {
			e = replaceVariable(e, name, fresh)
		}
	}
	return e
}

// taken reports whether a variable has another value already.
func (a *addition) taken(name, value string) bool {
	if a.home {
		return false // its value is not written anywhere
	}
	set, _ := a.c.o.Environ(name)
	inFile := a.values[name]
	if env.Unfilled(inFile) {
		inFile = ""
	}
	for _, other := range []string{set, inFile, a.secrets[name]} {
		if other != "" && other != value {
			return true
		}
	}
	return false
}

// variableName makes a name of a variable out of any text.
func variableName(text string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r - 'a' + 'A'
		}
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, text)
	if name[0] >= '0' && name[0] <= '9' {
		return "_" + name
	}
	return name
}

func replaceVariable(e hosts.Entry, name, fresh string) hosts.Entry {
	swap := func(text string) string { return strings.ReplaceAll(text, "${"+name+"}", "${"+fresh+"}") }
	swapAll := func(m map[string]string) map[string]string {
		out := maps.Clone(m)
		for k, v := range out {
			out[k] = swap(v)
		}
		return out
	}
	e.Env, e.Headers, e.URL, e.Args = swapAll(e.Env), swapAll(e.Headers), swap(e.URL), slices.Clone(e.Args)
	for i := range e.Args {
		e.Args[i] = swap(e.Args[i])
	}
	e.Secrets = maps.Clone(e.Secrets)
	e.Secrets[fresh] = e.Secrets[name]
	delete(e.Secrets, name)
	return e
}

// changes are those of .env, first, and of the configuration.
func (a *addition) changes() (api.ChangeSet, error) {
	keys := a.keys()
	ch, err := a.c.Change(a.file, a.before, a.after)
	if err != nil {
		return api.ChangeSet{}, err
	}
	ch.About = strings.Join(a.added, ", ")
	set := changeSet(keys, ch)
	set.Notes = a.notes
	return set, nil
}

// keys is the change of .env. What it cannot hold a person must set.
func (a *addition) keys() api.Change {
	file := a.c.o.Workspace.DotEnv()
	after := a.dotenv
	var added []string
	for _, name := range slices.Sorted(maps.Keys(a.secrets)) {
		if a.home {
			a.notes = append(a.notes, fmt.Sprintf("set %s in the environment: the entry is for all workspaces, so its keys are in the .env of none", name))
			continue
		}
		next, err := env.AddKeys(file, after, map[string]string{name: a.secrets[name]})
		if err != nil {
			a.notes = append(a.notes, fmt.Sprintf("%s was not added to .env: %s", name, core.AsError(err).Message))
			continue
		}
		if !bytes.Equal(next, after) {
			added = append(added, name)
		}
		after = next
	}
	out := keysChange(file, a.dotenv, after, added)
	if len(added) > 0 && a.c.committed() {
		out.Notes = append(out.Notes, ".gitignore does not name .env: keep the keys out of the repository")
	}
	return out
}

// committed reports whether .env of the workspace would get into its
// repository, as far as .gitignore says.
func (s *Servers) committed() bool {
	if _, err := os.Stat(filepath.Join(s.o.Workspace.Dir, ".git")); err != nil {
		return false
	}
	data, err := current(filepath.Join(s.o.Workspace.Dir, ".gitignore"))
	return err != nil || !slices.ContainsFunc(strings.Split(string(data), "\n"), func(line string) bool {
		return slices.Contains([]string{".env", "/.env", ".env*", "*.env", "**/.env", ".*"}, strings.TrimSpace(line))
	})
}
