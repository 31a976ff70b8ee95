package hosts

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonc"
)

const (
	codexFile = "config.toml"
	codexKey  = "mcp_servers"
)

// bom is the byte order mark, which TOML does not know.
var bom = []byte("\ufeff")

// codexDir is where Codex keeps its files, empty when that is not known.
func (p Place) codexDir() string {
	if dir := p.env("CODEX_HOME"); dir != "" {
		return dir
	}
	if p.Home == "" {
		return ""
	}
	return filepath.Join(p.Home, ".codex")
}

// readCodex reads the tables [mcp_servers.NAME] of Codex.
func (p Place) readCodex(file string, data []byte, names *names) (Found, bool, error) {
	r := &reader{place: p, host: codex, src: jsonc.NewSource(data), names: names, found: Found{Host: codex, File: file}}
	doc, fault := parseTOML(data)
	if fault != nil {
		return Found{}, false, invalid(file, *fault)
	}
	list, listed := doc[codexKey]
	servers, ok := list.(map[string]any)
	if listed && !ok {
		return Found{}, true, invalid(file, core.Fault{Message: codexKey + " must be a table"})
	}
	lines := tableOffsets(data)
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		at := lines[name]
		v := valueOf(servers[name], at)
		if v.kind == '{' {
			r.codexServer(name, v)
		} else {
			r.skip(name, v, problem("must be a table, not "+v.what()))
		}
	}
	r.finish()
	return r.found, listed, nil
}

// codexServer takes one table over. What names variables of the environment
// instead of holding their values becomes ${NAME}.
func (r *reader) codexServer(name string, v value) {
	for i := range v.members {
		if v.members[i].name == "http_headers" {
			v.members[i].name = "headers"
		}
	}
	e, why := r.entry(name, v)
	f := &fields{v: v}
	headers, bearer, forwarded := f.table("env_http_headers"), f.text("bearer_token_env_var"), f.texts("env_vars")
	if why = cmp.Or(why, f.why); why == "" {
		why = e.refer(headers, bearer, forwarded)
	}
	switch {
	case why != "":
		r.skip(name, v, why)
	case !isPML(e):
		r.found.Entries = append(r.found.Entries, e)
	}
}

// refer adds what an entry takes from the environment of its host: headers, a
// token, and variables that are handed on.
func (e *Entry) refer(headers map[string]string, bearer string, forwarded []string) problem {
	for _, name := range slices.Concat(slices.Collect(maps.Values(headers)), forwarded, []string{cmp.Or(bearer, "none")}) {
		if !variable.MatchString(name) {
			return problem(`"` + core.Visible(name, 60, false) + `" cannot be the name of a variable`)
		}
	}
	e.Headers, e.Env = maps.Clone(e.Headers), maps.Clone(e.Env)
	if e.Headers == nil && (len(headers) > 0 || bearer != "") {
		e.Headers = map[string]string{}
	}
	if e.Env == nil && len(forwarded) > 0 {
		e.Env = map[string]string{}
	}
	for header, name := range headers {
		e.Headers[header] = "${" + name + "}"
	}
	if bearer != "" {
		e.Headers["Authorization"] = "Bearer ${" + bearer + "}"
	}
	for _, name := range forwarded {
		if _, set := e.Env[name]; !set {
			e.Env[name] = "${" + name + "}"
		}
	}
	return ""
}

// parseTOML reads a document. Faults never repeat the text, which may hold a
// secret.
func parseTOML(data []byte) (map[string]any, *core.Fault) {
	data = bytes.TrimPrefix(data, bom)
	var doc map[string]any
	err := toml.Unmarshal(data, &doc)
	var de *toml.DecodeError
	switch {
	case errors.As(err, &de):
		line, column := de.Position()
		return nil, &core.Fault{At: &core.Position{Line: line, Column: column}, Message: "not valid TOML"}
	case err != nil:
		return nil, &core.Fault{Message: "not valid TOML"}
	}
	return doc, nil
}

// valueOf makes the value of JSON that means the same. at is where the table
// begins that it stands in: TOML's own values have no places.
func valueOf(v any, at int) value {
	out := value{at: at, end: at}
	switch v := v.(type) {
	case map[string]any:
		out.kind = '{'
		for _, name := range slices.Sorted(maps.Keys(v)) {
			out.members = append(out.members, member{name, valueOf(v[name], at)})
		}
	case []any:
		out.kind = '['
		for _, item := range v {
			out.items = append(out.items, valueOf(item, at))
		}
	case string:
		out.kind, out.text = '"', v
	case bool:
		out.kind, out.text = 't', strconv.FormatBool(v)
	case time.Time, toml.LocalDate, toml.LocalTime, toml.LocalDateTime:
		out.kind, out.text = '"', fmt.Sprint(v)
	default:
		out.kind, out.text = '0', fmt.Sprint(v)
	}
	return out
}
