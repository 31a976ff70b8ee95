package env

import (
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// publicWords are values of settings that stand in every program's output: the
// name of such a setting in their place would only spoil it. Under a name that
// looks like a key's they are redacted all the same.
var publicWords = []string{
	"production", "development", "localhost", "127.0.0.1", "disabled", "postgres", "postgresql", "info,debug", "us-east-1", "us-west-2", "eu-west-1", "eu-central-1",
}

// Secrets returns what is secret by name, for a Redactor: the values of all
// declared variables, which are those in env and headers, and what .env gives to
// args and url; and everything else that stands in .env, which servers can read
// as a file. It covers entries of the home that the workspace replaces, too.
// What can be read of a malformed .env counts.
//
// What decides which code runs and where keys go is no secret, for a person who
// is asked about it must see it: the command, the folder, the host of a URL, a
// file that is there, a whole variable such as NODE_OPTIONS. Nor is a path of
// the workspace or above it: without it every message would be unreadable.
func (c *Config) Secrets() map[string]string {
	return c.allSecrets(func(string) bool { return true })
}

// SecretKeys are those of Secrets that an entry declares or that have the name of a
// key: a tool whose name holds one of the others is still offered.
func (c *Config) SecretKeys() map[string]string { return c.allSecrets(isKeyName) }

// allSecrets takes those of .env that no entry declares where undeclared says so
// of their names.
func (c *Config) allSecrets(undeclared func(name string) bool) map[string]string {
	v := c.variables()
	s := secrets{values: map[string]string{}, shown: map[string]bool{}}
	for _, entries := range []map[string]*ServerEntry{c.work.layer.Servers, c.home.layer.Servers} {
		for _, server := range slices.Sorted(maps.Keys(entries)) {
			c.secrets(v, *entries[server], &s)
		}
	}
	c.modelSecrets(v, &s)
	c.notifySecrets(&s)
	declared := map[string]bool{}
	for _, value := range s.values {
		declared[value] = true
	}
	v.load()
	for _, name := range slices.Sorted(maps.Keys(v.values)) {
		value := v.values[name]
		public := s.shown[value] || slices.Contains(publicWords, value)
		if !declared[value] && (!public || isKeyName(name)) && undeclared(name) {
			c.note(&s, ".env", name, value)
		}
	}
	return s.values
}

// secrets are what Secrets collects.
type secrets struct {
	values map[string]string // by name
	shown  map[string]bool   // values of .env that a person must see
}

// note adds a value. Two servers may declare one name with two values; both
// count.
func (c *Config) note(s *secrets, whose, name, value string) {
	if value == "" || c.isOwnPath(value) {
		return
	}
	for old, ok := s.values[name]; ok && old != value; old, ok = s.values[name] {
		name = whose + "." + name
	}
	s.values[name] = value
}

func (c *Config) secrets(v *variables, e ServerEntry, s *secrets) {
	note := func(name, value string) { c.note(s, e.Name, name, value) }
	r, _ := c.resolve(v, e)
	loads := map[string]string{} // by place
	for name, text := range e.Env {
		if isLoader(name) && !mayHoldKey(name) {
			loads[pointer("/env", name)] = text
		}
	}
	v.keys(e, func(at, name, value string) {
		text, ok := loads[at]
		if ok && !holdsPassword(value) && (pointer("/env", name) == at || isWhole(text) || isPath(r.Dir, value)) {
			s.shown[value] = true
			return
		}
		note(name, value)
	})
	given := func(text string, shown func(value string) bool) {
		x := v.expand(text, e.Origin == FromWorkspace)
		for name, value := range x.used {
			if x.file[name] && shown(value) {
				s.shown[value] = true
			} else if x.file[name] {
				note(name, value)
			}
		}
	}
	always := func(string) bool { return true }
	given(e.Command, always)
	given(e.Cwd, always)
	given(e.URL, func(value string) bool { return isOrigin(r.URL, value) })
	for _, arg := range e.Args {
		given(arg, func(value string) bool { return isPath(r.Dir, value) })
	}
}

// isWhole reports whether a text is one variable and nothing else. What is only
// a part of one may be a key, as in -Dtoken=${TOKEN}.
func isWhole(text string) bool {
	refs, err := parseRefs(text)
	if err != nil {
		return false
	}
	variables := 0
	for _, r := range refs {
		if r.variable {
			variables++
		} else if strings.TrimSpace(r.text) != "" {
			return false
		}
	}
	return variables == 1
}

// holdsPassword reports whether a value has the form of a URL with a password.
func holdsPassword(value string) bool {
	_, rest, ok := strings.Cut(value, "://")
	return ok && strings.Contains(rest, "@")
}

// isOrigin reports whether a value says no more of a URL than its scheme, host
// and port: keys stand in its path, too.
func isOrigin(whole, value string) bool {
	u, err := url.Parse(whole)
	if err != nil || u.Host == "" {
		return false
	}
	return strings.Contains(u.Scheme+"://"+u.Host+"/", value)
}

// isPath reports whether a value is a file that is there, by itself or after the
// "=" of a flag.
func isPath(dir, value string) bool {
	_, after, _ := strings.Cut(value, "=")
	for _, name := range []string{value, after} {
		if name == "" || strings.ContainsRune(name, 0) {
			continue
		}
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		if _, err := os.Stat(name); err == nil {
			return true
		}
	}
	return false
}

func (c *Config) isOwnPath(value string) bool {
	if !filepath.IsAbs(value) {
		return false
	}
	for _, dir := range []string{c.Workspace.Dir, c.Home.Dir} {
		rel, err := filepath.Rel(filepath.Clean(value), dir)
		if err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
			return true
		}
	}
	return false
}
