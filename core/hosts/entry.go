package hosts

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonc"
)

// maxServers bounds a list: no person has as many.
const maxServers = 500

// reader takes the entries of one file over.
type reader struct {
	place  Place
	host   string
	src    *jsonc.Source
	names  *names
	inputs map[string]string
	found  Found
}

// servers reads every list of servers that a file has for the place; false if
// it has none at all.
func (r *reader) servers(root value) bool {
	top := root
	if mcp := root.get("mcp"); mcp.kind == '{' {
		top = mcp // settings.json of VS Code
	}
	r.inputs = map[string]string{}
	for _, in := range top.get("inputs").items {
		r.inputs[in.get("id").text] = in.get("type").text
	}
	lists := []value{}
	// What belongs to one project comes before what holds everywhere.
	for _, m := range root.get("projects").members {
		if r.place.Workspace != "" && samePath(m.name, r.place.Workspace) {
			lists = append(lists, m.get("mcpServers"))
		}
	}
	lists = append(lists, top.get("mcpServers"))
	if r.host == vscode || r.host == mcpJSON {
		lists = append(lists, top.get("servers"))
	}
	listed := root.get("projects").kind == '{'
	taken := map[string]bool{}
	for _, list := range lists {
		listed = listed || list.kind != 0
		if list.kind != 0 && list.kind != '{' && list.kind != 'n' {
			r.skip("the list of servers", list, problem("must be an object, not "+list.what()))
		}
		r.list(list, taken)
	}
	return listed
}

// list reads one object of servers. taken has the names that came before.
func (r *reader) list(list value, taken map[string]bool) {
	if len(list.members) > maxServers {
		r.skip("the list of servers", list, problem(fmt.Sprintf("it has %d; at most %d are read", len(list.members), maxServers)))
		return
	}
	own, last := map[string]bool{}, map[string]int{}
	for i, m := range list.members {
		last[m.name] = i
	}
	for i, m := range list.members {
		if last[m.name] != i {
			r.skip(m.name, m.value, "the name stands twice in the file; the last one counts")
			continue
		}
		if taken[m.name] {
			r.skip(m.name, m.value, "the settings of this project have another one of the same name, which counts")
			continue
		}
		own[m.name] = true
		r.server(m.name, m.value)
	}
	maps.Copy(taken, own)
}

func samePath(a, b string) bool {
	clean := func(s string) string { return path.Clean(strings.ReplaceAll(s, `\`, "/")) }
	return clean(a) == clean(b)
}

// skip notes an entry that is not taken over.
func (r *reader) skip(name string, v value, why problem) {
	r.found.Skipped = append(r.found.Skipped, fmt.Sprintf("%s (line %d): %s", core.Visible(name, 60, false), r.src.At(v.at).Line, why))
}

func (r *reader) note(name, text string) {
	r.found.Notes = append(r.found.Notes, core.Visible(name, 60, false)+": "+text)
}

// finish puts the entries in order and gives each a name of its own.
func (r *reader) finish() {
	slices.SortStableFunc(r.found.Entries, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	used := map[string]bool{}
	for i := range r.found.Entries {
		used[r.found.Entries[i].Name] = r.found.Entries[i].Name == mended(r.found.Entries[i].Name)
	}
	for i := range r.found.Entries {
		e := &r.found.Entries[i]
		name := mended(e.Name)
		if name == e.Name {
			continue
		}
		for base, n := name, 2; used[name]; n++ {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		used[name] = true
		why := "since pml allows letters, digits, dot, dash and underscore in the name of a server"
		if e.Name == "workspace" {
			why = "since pml has a server of its own with that name"
		}
		r.note(e.Name, "is taken over as "+name+", "+why)
		e.Name = name
	}
	slices.SortStableFunc(r.found.Entries, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
}

var outsideNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// mended returns a name that pml allows for a server; workspace is that of its
// own one.
func mended(name string) string {
	s := outsideNames.ReplaceAllString(name, "-")
	if s != name || strings.HasPrefix(s, "-") {
		s = strings.Trim(s, "-")
	}
	s = s[:min(len(s), 90)] // room for a number
	switch s {
	case "":
		return "server"
	case "workspace":
		return "workspace-2"
	}
	return s
}

// server takes one entry over, or notes why not.
func (r *reader) server(name string, v value) {
	if v.kind != '{' {
		r.skip(name, v, problem("must be an object, not "+v.what()))
		return
	}
	e, why := r.entry(name, v)
	switch {
	case why != "":
		r.skip(name, v, why)
	case !isPML(e):
		r.found.Entries = append(r.found.Entries, e)
	}
}

// isPML reports whether an entry starts pml itself: a program of that name, the
// source that go runs, or anything that is called pml and is told "stdio".
func isPML(e Entry) bool {
	if !slices.Contains(e.Args, "stdio") {
		return false
	}
	switch program := programName(e.Command); program {
	case "pml":
		return true
	case "go":
		return slices.ContainsFunc(e.Args, func(a string) bool { return programName(a) == "pml" })
	}
	return e.Name == ownName && len(e.Args) == 1
}

// programName is the name of a program without its folder and suffix.
func programName(command string) string {
	program := strings.ToLower(path.Base(strings.ReplaceAll(command, `\`, "/")))
	return strings.TrimSuffix(strings.TrimSuffix(program, ".exe"), ".cmd")
}

func (r *reader) entry(name string, v value) (Entry, problem) {
	if why := unusable(v); why != "" {
		return Entry{}, why
	}
	f := &fields{v: v}
	e := Entry{
		Name: name, Command: f.text("command"), Args: f.texts("args"), Env: f.table("env"),
		URL: f.address(), Headers: f.table("headers"), Cwd: f.text("cwd"),
	}
	kind := f.text("type")
	if kind == "" {
		kind = f.text("transport")
	}
	if f.why == "" {
		f.why = checkShape(kind, e)
	}
	if f.why == "" {
		unwrap(&e)
		f.why = r.translate(&e)
	}
	if f.why != "" {
		return Entry{}, f.why
	}
	r.conceal(&e)
	return e, ""
}

// unwrap takes "cmd /c" away, which hosts on Windows need for npx and pml does
// not.
func unwrap(e *Entry) {
	shell := strings.EqualFold(e.Command, "cmd") || strings.EqualFold(e.Command, "cmd.exe")
	if shell && len(e.Args) > 1 && strings.EqualFold(e.Args[0], "/c") && e.Args[1] != "" {
		e.Command, e.Args = e.Args[1], e.Args[2:]
	}
}

// translate turns the host's variables into those of pml.
func (r *reader) translate(e *Entry) problem {
	w := &rewriter{place: r.place, host: r.host, folder: ".", inputs: r.inputs, keys: map[string]bool{}}
	var why problem
	do := func(text string) string {
		out, p := w.rewrite(text)
		why = cmp.Or(why, p)
		return out
	}
	e.Cwd = do(e.Cwd)
	w.folder = r.workspaceFrom(e.Cwd)
	e.Command, e.URL = do(e.Command), do(e.URL)
	for i, a := range e.Args {
		e.Args[i] = do(a)
	}
	for _, table := range []map[string]string{e.Env, e.Headers} {
		for _, name := range slices.Sorted(maps.Keys(table)) {
			table[name] = do(table[name])
		}
	}
	e.Keys = slices.Sorted(maps.Keys(w.keys))
	return why
}

// workspaceFrom is the workspace, seen from the folder that a server runs in.
func (r *reader) workspaceFrom(cwd string) string {
	if cwd == "" || cwd == "." {
		return "."
	}
	if strings.Contains(cwd, "${") || filepath.IsAbs(cwd) {
		return cmp.Or(r.place.Workspace, ".")
	}
	up, err := filepath.Rel(cwd, ".")
	if err != nil {
		return cmp.Or(r.place.Workspace, ".")
	}
	return filepath.ToSlash(up)
}

// conceal moves what is secret in an entry out of it.
func (r *reader) conceal(e *Entry) {
	v := &vault{server: upperSnake(e.Name), names: r.names, secrets: map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(e.Env)) {
		e.Env[name] = v.variable(name, e.Env[name])
	}
	for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
		e.Headers[name] = v.header(name, e.Headers[name])
	}
	e.Args = v.args(e.Args)
	if credentialURL(e.URL) {
		e.URL = v.keep(e.URL, v.server+"_URL")
	}
	e.URL = v.address(e.URL)
	if len(v.secrets) > 0 {
		e.Secrets = v.secrets
	}
	if u, err := url.Parse(e.URL); err == nil && u.Scheme == "http" && !loopback(u.Hostname()) {
		r.note(e.Name, "is reached over http: what is sent to it, keys too, can be read on the way")
	}
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
