package env

import (
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Secrets returns the values of all declared variables by name, for a
// Redactor: those in env and headers, and what .env gives to args and url. It
// covers entries of the home that the workspace replaces, too. What can be read
// of a malformed .env counts.
//
// What decides which code runs and where keys go is no secret, for a person who
// is asked about it must see it: the command, the folder, the host of a URL, a
// file that is there, a whole variable such as NODE_OPTIONS. Nor is a path of
// the workspace or above it: without it every message would be unreadable.
func (c *Config) Secrets() map[string]string {
	v := c.variables()
	out := map[string]string{}
	for _, entries := range []map[string]*ServerEntry{c.work.layer.Servers, c.home.layer.Servers} {
		for _, server := range slices.Sorted(maps.Keys(entries)) {
			c.secrets(v, *entries[server], out)
		}
	}
	return out
}

func (c *Config) secrets(v *variables, e ServerEntry, out map[string]string) {
	note := func(name, value string) {
		if value == "" || c.isOwnPath(value) {
			return
		}
		// Two servers may declare one name with two values; both count.
		for old, ok := out[name]; ok && old != value; old, ok = out[name] {
			name = e.Name + "." + name
		}
		out[name] = value
	}
	r, _ := c.resolve(v, e)
	loads := map[string]string{} // by place
	for name, text := range e.Env {
		if isLoader(name) {
			loads[pointer("/env", name)] = text
		}
	}
	v.keys(e, func(at, name, value string) {
		text, ok := loads[at]
		if ok && !holdsPassword(value) && (pointer("/env", name) == at || isWhole(text) || isPath(r.Dir, value)) {
			return
		}
		note(name, value)
	})
	given := func(text string, shown func(value string) bool) {
		x := v.expand(text, e.Origin == FromWorkspace)
		for name, value := range x.used {
			if x.file[name] && !shown(value) {
				note(name, value)
			}
		}
	}
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
