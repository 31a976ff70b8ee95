package env

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/casys-ai/pml/core"
)

// entry returns a server's entry, or an error with the nearest names.
func (c *Config) entry(server string) (ServerEntry, error) {
	e, ok := c.Servers[server]
	if !ok {
		return e, core.Errorf(core.CodeNoSuchTool, "no MCP server %q is configured%s; add it to mcpServers in %s",
			core.Visible(server, 60, false), core.Suggest(server, slices.Sorted(maps.Keys(c.Servers))), configName)
	}
	return e, nil
}

// Keys says which of the variables that a server declares are missing. .env
// is read again each time. Errors: core.CodeNoSuchTool for an unknown server,
// core.CodeInvalidConfig for a malformed .env.
func (c *Config) Keys(server string) (KeyState, error) {
	e, err := c.entry(server)
	if err != nil {
		return KeyState{}, err
	}
	v := c.variables()
	state := v.keys(e, ignore)
	if err := v.err(); err != nil {
		return KeyState{}, err
	}
	digested := []map[string]string{state.Env, state.Headers}
	if state.ClientSecret != "" {
		digested = append(digested, map[string]string{"client_secret": state.ClientSecret})
	}
	digest, err := core.DigestOf(digested)
	if err != nil {
		return KeyState{}, err
	}
	state.Digest = digest
	return state, nil
}

// noted is called with each value, its name and the place that it stands in,
// such as /env/TOKEN.
type noted func(at, name, value string)

func ignore(string, string, string) {}

// keys expands env, headers and the secret of an OAuth client.
func (v *variables) keys(e ServerEntry, note noted) KeyState {
	state := KeyState{Env: map[string]string{}, Headers: map[string]string{}}
	var missing []string
	for name, text := range e.Env {
		d := v.declared(e, name, text, note)
		state.Env[name] = d.value
		missing = append(missing, d.missing...)
	}
	for name, text := range e.Headers {
		x, at := v.expand(text, true), pointer("/headers", name)
		for k, value := range x.used {
			note(at, k, value)
		}
		note(at, name, x.value)
		state.Headers[name] = x.value
		missing = append(missing, append(x.unset, x.fake...)...)
		if len(x.unset)+len(x.fake) == 0 && !x.optional && unfilled(withoutScheme(x.value)) {
			missing = append(missing, name)
		}
	}
	if e.OAuth != nil && e.OAuth.ClientSecret != "" {
		const at = "/oauth/client_secret"
		x := v.expand(e.OAuth.ClientSecret, true)
		for k, value := range x.used {
			note(at, k, value)
		}
		note(at, "client_secret", x.value)
		state.ClientSecret = x.value
		missing = append(missing, append(x.unset, x.fake...)...)
	}
	slices.Sort(missing)
	state.Missing = slices.Compact(missing)
	return state
}

// declaration is a variable of env, expanded.
type declaration struct {
	value   string
	missing []string // what gate 4 asks for
	file    bool     // .env gave something of it
}

// declared expands one variable of env. One that is written without a value,
// or with a placeholder, is looked up by its own name, so that adding it to
// .env is always a way to go on. What an entry of the home loads is not for
// the .env of a folder to say: there it counts for keys only, and what is not
// set is reported by resolve.
func (v *variables) declared(e ServerEntry, name, text string, note noted) declaration {
	at, dotenv := pointer("/env", name), e.Origin == FromWorkspace || !isLoader(name)
	x := v.expand(text, dotenv)
	d := declaration{value: x.value}
	for k, value := range x.used {
		note(at, k, value)
		d.file = d.file || x.file[k]
	}
	if !dotenv {
		return d
	}
	if len(x.unset)+len(x.fake) > 0 {
		d.missing = append(x.unset, x.fake...)
		return d
	}
	if unfilled(x.value) && !x.optional {
		value, file := v.lookup(name, true)
		if unfilled(value) {
			d.missing = []string{name}
			return d
		}
		d.value, d.file = value, d.file || file
	}
	note(at, name, d.value)
	return d
}

func unfilled(value string) bool { return strings.TrimSpace(value) == "" || placeholder(value) }

// withoutScheme cuts the scheme of an Authorization header.
func withoutScheme(value string) string {
	scheme, rest, ok := strings.Cut(value, " ")
	if ok && slices.Contains([]string{"bearer", "basic", "token"}, strings.ToLower(scheme)) {
		return rest
	}
	return value
}

// Resolve expands a server's entry; .env is read again each time. A variable
// that is unset in command, args, url or cwd is core.CodeInvalidConfig naming
// it and its place; missing keys are no error but Resolved.Missing. In these
// places, and in the variables of its env that decide what is loaded, an entry
// of the home takes variables from the process environment only: the .env of a
// folder must not redirect what this user set up.
func (c *Config) Resolve(server string) (Resolved, error) {
	e, err := c.entry(server)
	if err != nil {
		return Resolved{}, err
	}
	v := c.variables()
	r, faults := c.resolve(v, e)
	state := v.keys(e, ignore)
	loader, filled := v.loader(e)
	if err := v.err(); err != nil {
		return Resolved{}, err
	}
	if len(faults) > 0 {
		return Resolved{}, &core.Error{
			Code:    core.CodeInvalidConfig,
			Message: fmt.Sprintf("the MCP server %q cannot be used: its configuration needs variables that are not set; set them in the environment or in .env", server),
			Faults:  faults,
		}
	}
	r.Env, r.Headers, r.Missing = state.Env, state.Headers, state.Missing
	r.Loader, r.FromDotEnv = loader, append(r.FromDotEnv, filled...)
	digested := map[string]any{
		"type": r.Type, "command": r.Command, "args": r.Args, "url": r.URL, "dir": r.Dir, "env": r.Env, "headers": r.Headers,
	}
	if e.OAuth != nil {
		client := *e.OAuth
		client.ClientSecret = state.ClientSecret
		r.OAuth, digested["oauth"] = &client, client
	}
	if e.Protocol != "" {
		digested["protocol"] = e.Protocol
	}
	r.Digest, err = core.DigestOf(digested)
	return r, err
}

// resolve expands everything but env and headers. Of an entry of the home it
// finds what its env lacks to be loaded with, too.
func (c *Config) resolve(v *variables, e ServerEntry) (Resolved, []core.Fault) {
	r := Resolved{Entry: e, Name: e.Name, Type: e.Type}
	var faults []core.Fault
	expand := func(at, text string) string {
		x := v.expand(text, e.Origin == FromWorkspace)
		for _, name := range x.unset {
			faults = append(faults, c.unsetFault(v, e, at, name))
		}
		if slices.Contains(slices.Collect(maps.Values(x.file)), true) {
			r.FromDotEnv = append(r.FromDotEnv, at)
		}
		return x.value
	}
	r.Command = expand("/command", e.Command)
	r.Args = []string{}
	for i, a := range e.Args {
		r.Args = append(r.Args, expand("/args/"+strconv.Itoa(i), a))
	}
	r.URL = expand("/url", e.URL)
	r.Cwd = expand("/cwd", e.Cwd)
	r.Dir = r.Cwd
	if !filepath.IsAbs(r.Dir) {
		r.Dir = filepath.Join(c.Workspace.Dir, r.Dir)
	}
	for _, name := range slices.Sorted(maps.Keys(e.Env)) {
		if e.Origin != FromWorkspace && isLoader(name) {
			expand(pointer("/env", name), e.Env[name])
		}
	}
	if len(faults) == 0 && e.Type == TypeHTTP {
		if err := checkURL(r.URL); err != nil {
			faults = append(faults, c.entryFault(e, "/url", err.Error()))
		}
	}
	if len(faults) == 0 && e.Type == TypeStdio && r.Command == "" {
		faults = append(faults, c.entryFault(e, "/command", "is empty"))
	}
	return r, faults
}

func (c *Config) unsetFault(v *variables, e ServerEntry, at, name string) core.Fault {
	where, near := "the environment or .env", core.Suggest(name, slices.Collect(maps.Keys(v.values)))
	if e.Origin == FromHome {
		where, near = "the environment", ""
	}
	return c.entryFault(e, at, fmt.Sprintf("${%s} is not set%s; set it in %s, or write ${%s:-default}", name, near, where, name))
}

func (c *Config) entryFault(e ServerEntry, at, message string) core.Fault {
	at = pointer("/mcpServers", e.Name) + at
	f := core.Fault{File: e.File, Path: at, Message: message}
	if p, _ := c.find(at); p.file != nil {
		if pos, ok := p.file.pos[at]; ok {
			f.At = &pos
		}
	}
	return f
}

// Unset lists what would make Resolve fail, for all servers by name; and what
// is wrong with .env if a server needs it.
func (c *Config) Unset() []core.Fault {
	v := c.variables()
	var faults []core.Fault
	for _, name := range slices.Sorted(maps.Keys(c.Servers)) {
		_, f := c.resolve(v, c.Servers[name])
		v.keys(c.Servers[name], ignore)
		faults = append(faults, f...)
	}
	return append(faults, v.faults...)
}

// expandServerURL expands server.url when a file gave it. Like the entries of
// the home it is not expanded from .env: where code is sent is not for a key
// file to say.
func (c *Config) expandServerURL() []core.Fault {
	p, _ := c.find("/server/url")
	if p.file == nil {
		return nil
	}
	fault := func(message string) []core.Fault {
		f := core.Fault{File: p.file.name, Path: p.pointer, Message: message}
		if at, ok := p.file.pos[p.pointer]; ok {
			f.At = &at
		}
		return []core.Fault{f}
	}
	x := c.variables().expand(c.Server.URL, false)
	if len(x.unset) > 0 {
		return fault(fmt.Sprintf("${%s} is not set; set it in the environment, or write ${%s:-default}", x.unset[0], x.unset[0]))
	}
	c.Server.URL = x.value
	if err := checkServerURL(c.Server.URL); err != nil {
		return fault(err.Error())
	}
	return nil
}
