package env

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/casys-ai/pml/core/jsonc"

	"github.com/casys-ai/pml/core"
)

// field is one key of an object: how it is read, and what the JSON Schema
// says of it. One table serves both, so that they cannot differ.
type field struct {
	name   string
	schema map[string]any
	read   func(d *decoder, v jsonc.Value, at string)
}

// decoder collects the faults of one file.
type decoder struct {
	doc    *jsonc.Doc
	file   *file
	faults []core.Fault
}

func (d *decoder) fault(v jsonc.Value, at, format string, args ...any) {
	f := d.doc.Fault(v.StartOffset, format, args...)
	f.Path = at
	d.faults = append(d.faults, f)
}

// parseFile reads a configuration file. The faults are all that is wrong with
// it, by position.
func parseFile(name string, origin Origin, data []byte) (*file, []core.Fault) {
	f := &file{name: name, origin: origin, pos: map[string]core.Position{}}
	doc, faults, ok := parseJSONC(data)
	d := &decoder{doc: doc, file: f, faults: faults}
	if ok {
		d.object(doc.Root, "", f.layer.fields(origin))
	}
	for i := range d.faults {
		d.faults[i].File = name
	}
	slices.SortStableFunc(d.faults, func(a, b core.Fault) int {
		if a.At == nil || b.At == nil {
			return 0
		}
		if a.At.Line != b.At.Line {
			return a.At.Line - b.At.Line
		}
		return a.At.Column - b.At.Column
	})
	return f, d.faults
}

// object reads the members of an object by a table of fields.
func (d *decoder) object(v jsonc.Value, at string, fields []field) {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	d.members(v, at, func(name string, key, member jsonc.Value, at string) {
		i := slices.Index(names, name)
		if i < 0 {
			d.fault(key, at, "unknown key %q%s", core.Visible(name, 60, false), core.Suggest(name, names))
			return
		}
		fields[i].read(d, member, at)
	})
}

// members calls each for the members of an object; a value that is none, and
// a name that stands twice, are faults.
func (d *decoder) members(v jsonc.Value, at string, each func(name string, key, member jsonc.Value, at string)) {
	d.file.pos[at] = d.doc.At(v.StartOffset)
	obj, ok := v.Value.(*jsonc.Object)
	if !ok {
		d.wrongType(v, at, "an object")
		return
	}
	seen := map[string]bool{}
	for _, m := range obj.Members {
		name := jsonc.Name(m)
		p := pointer(at, name)
		if seen[name] {
			d.fault(m.Name, p, "the key %q stands twice", core.Visible(name, 60, false))
			continue
		}
		seen[name] = true
		each(name, m.Name, m.Value, p)
	}
}

func (d *decoder) wrongType(v jsonc.Value, at, want string) {
	got := "null"
	switch v.Value.Kind() {
	case 't', 'f':
		got = "a boolean"
	case '"':
		got = "a string"
	case '0':
		got = "a number"
	case '{':
		got = "an object"
	case '[':
		got = "a list"
	}
	d.fault(v, at, "must be %s, not %s", want, got)
}

// literal returns a literal of the wanted kind ('"', '0' or 't' for both
// booleans) and records where it stands.
func (d *decoder) literal(v jsonc.Value, at string, kind jsonc.Kind, want string) (jsonc.Literal, bool) {
	d.file.pos[at] = d.doc.At(v.StartOffset)
	got := v.Value.Kind()
	if got == 'f' {
		got = 't'
	}
	if got != kind {
		d.wrongType(v, at, want)
		return nil, false
	}
	return v.Value.(jsonc.Literal), true
}

func (d *decoder) str(v jsonc.Value, at string) (string, bool) {
	lit, ok := d.literal(v, at, '"', "a string")
	if !ok {
		return "", false
	}
	return lit.String(), true
}

func (d *decoder) strs(v jsonc.Value, at string) []string {
	d.file.pos[at] = d.doc.At(v.StartOffset)
	arr, ok := v.Value.(*jsonc.Array)
	if !ok {
		d.wrongType(v, at, "a list of strings")
		return nil
	}
	out := []string{}
	for i, e := range arr.Elements {
		if s, ok := d.str(e, at+"/"+strconv.Itoa(i)); ok {
			out = append(out, s)
		}
	}
	return out
}

func (d *decoder) strMap(v jsonc.Value, at string) map[string]string {
	out := map[string]string{}
	d.members(v, at, func(name string, key, member jsonc.Value, at string) {
		if name == "" || strings.ContainsAny(name, "=\x00\r\n") {
			d.fault(key, at, "%q cannot be a name here", core.Visible(name, 60, false))
			return
		}
		if s, ok := d.str(member, at); ok {
			d.checkRefs(member, at, s)
			if strings.ContainsRune(s, 0) {
				d.fault(member, at, "there is a NUL character in the value")
			}
			out[name] = s
		}
	})
	return out
}

// checkRefs reports malformed ${…} in a text that will be expanded.
func (d *decoder) checkRefs(v jsonc.Value, at, s string) {
	if _, err := parseRefs(s); err != nil {
		d.fault(v, at, "%s", err)
	}
}

func readString(to **string) func(*decoder, jsonc.Value, string) {
	return func(d *decoder, v jsonc.Value, at string) {
		if s, ok := d.str(v, at); ok {
			*to = &s
		}
	}
}

func readStrings(to *[]string) func(*decoder, jsonc.Value, string) {
	return func(d *decoder, v jsonc.Value, at string) { *to = d.strs(v, at) }
}

func readBool(to **bool) func(*decoder, jsonc.Value, string) {
	return func(d *decoder, v jsonc.Value, at string) {
		if lit, ok := d.literal(v, at, 't', "true or false"); ok {
			b := lit.Bool()
			*to = &b
		}
	}
}

func readEnum(to **string, values ...string) func(*decoder, jsonc.Value, string) {
	return func(d *decoder, v jsonc.Value, at string) {
		s, ok := d.str(v, at)
		if !ok {
			return
		}
		if !slices.Contains(values, s) {
			d.fault(v, at, "must be %s, not %q%s", strings.Join(values, " or "), core.Visible(s, 60, false), core.Suggest(s, values))
			return
		}
		*to = &s
	}
}

func readInt(to **int64, least, most int64) func(*decoder, jsonc.Value, string) {
	return func(d *decoder, v jsonc.Value, at string) {
		lit, ok := d.literal(v, at, '0', "a number")
		if !ok {
			return
		}
		n, err := strconv.ParseInt(string(lit), 10, 64)
		if err != nil || n < least || n > most {
			d.fault(v, at, "must be a whole number from %d to %d", least, most)
			return
		}
		*to = &n
	}
}

func readDuration(to **duration) func(*decoder, jsonc.Value, string) {
	return func(d *decoder, v jsonc.Value, at string) {
		if v.Value.Kind() == '0' {
			d.fault(v, at, `must be a duration in quotes such as "5m", "12h" or "30d"; "0" means never or no limit`)
			return
		}
		s, ok := d.str(v, at)
		if !ok {
			return
		}
		t, ok := parseDuration(s)
		if !ok {
			d.fault(v, at, `not a duration: %q; write one such as "5m", "12h" or "30d"; "0" means never or no limit`, core.Visible(s, 40, false))
			return
		}
		u := duration(t)
		*to = &u
	}
}

func readObject(fields []field) func(*decoder, jsonc.Value, string) {
	return func(d *decoder, v jsonc.Value, at string) { d.object(v, at, fields) }
}

// readServers reads mcpServers.
func readServers(to *map[string]*ServerEntry) func(*decoder, jsonc.Value, string) {
	return func(d *decoder, v jsonc.Value, at string) {
		*to = map[string]*ServerEntry{}
		d.members(v, at, func(name string, key, member jsonc.Value, at string) {
			if problem := badServerName(name); problem != "" {
				d.fault(key, at, "%q cannot be the name of a server: %s", core.Visible(name, 60, false), problem)
			}
			e := &ServerEntry{Name: name, Origin: d.file.origin, File: d.file.name, At: d.doc.At(member.StartOffset)}
			before := len(d.faults)
			d.object(member, at, e.fields())
			if len(d.faults) == before {
				d.checkEntry(member, at, e)
			}
			(*to)[name] = e
		})
	}
}

// badServerName says why a name cannot be a server's; empty: it can.
func badServerName(name string) string {
	switch {
	case name == "":
		return "it is empty"
	case len(name) > 100:
		return "it is longer than 100 bytes"
	case name == "workspace" || name == core.AgentServer:
		return "it is that of a built-in server"
	case !plainName(name):
		return namesAre
	}
	return ""
}

// namesAre says what plainName accepts.
const namesAre = "use letters, digits, dot, underscore and, but for the first, dash"

// plainName reports whether a name of a server, a carrier or a model means itself
// wherever it is written: a colon would part server and tool, a wildcard match
// others, a letter that is not seen look like another name, and a dash begin a flag.
// A cloned folder chooses the name, and pml shows commands with it for copying: a
// quote or a semicolon would end their word.
func plainName(name string) bool {
	return name == core.Visible(name, 0, false) && !strings.HasPrefix(name, "-") && !strings.ContainsFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-", r)
	})
}

func (d *decoder) checkEntry(v jsonc.Value, at string, e *ServerEntry) {
	switch {
	case e.Command == "" && e.URL == "":
		d.fault(v, at, "needs a command or a url")
		return
	case e.Command != "" && e.URL != "":
		d.fault(v, at, "has a command and a url; one of them is too many")
		return
	}
	want := TypeStdio
	if e.URL != "" {
		want = TypeHTTP
	}
	if e.Type == "" {
		e.Type = want
	}
	if e.Type != want {
		d.fault(v, at, "type %q does not go with %s", e.Type, map[ServerType]string{TypeStdio: "a command", TypeHTTP: "a url"}[want])
	}
	if e.OAuth != nil {
		d.checkOAuth(v, at, e)
	}
	if e.URL != "" && !strings.Contains(e.URL, "${") {
		if err := checkURL(e.URL); err != nil {
			d.fault(v, at+"/url", "%s", err)
		}
	}
}

func (d *decoder) checkOAuth(v jsonc.Value, at string, e *ServerEntry) {
	switch {
	case e.URL == "":
		d.fault(v, at+"/oauth", "goes with a url: a server that is a command is not connected with OAuth")
	case e.OAuth.ClientID == "":
		d.fault(v, at+"/oauth", "needs the client_id that the authorization server has given out; without oauth pml registers itself")
	case strings.Contains(e.OAuth.ClientID, "${"):
		d.fault(v, at+"/oauth/client_id", "is public and stands here as it was given out: ${VAR} is not expanded")
	}
	for name := range e.Headers {
		if strings.EqualFold(name, "Authorization") {
			d.fault(v, at+"/oauth", "stands beside an Authorization header; one of them is too many")
		}
	}
}

// readServer reads where the server is. A URL with variables is checked when
// they are known.
func readServer(to *serverPart) func(*decoder, jsonc.Value, string) {
	return func(d *decoder, v jsonc.Value, at string) {
		d.object(v, at, to.fields())
		if to.URL != nil && !strings.Contains(*to.URL, "${") {
			if err := checkServerURL(*to.URL); err != nil {
				d.fault(v, at+"/url", "%s", err)
			}
		}
	}
}

// checkServerURL is checkURL for server.url, which may be none, or a socket.
func checkServerURL(text string) error {
	if text == "" || strings.HasPrefix(text, "unix://") {
		return nil
	}
	return checkURL(text)
}

// checkURL reports a URL that cannot be called; the text itself may hold a
// secret and is not repeated.
func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("must be a URL that begins with http:// or https:// and names a host")
	}
	return nil
}

// expandable reads a list of strings in which ${VAR} will be expanded.
func (d *decoder) expandable(v jsonc.Value, at string) []string {
	out := d.strs(v, at)
	if arr, ok := v.Value.(*jsonc.Array); ok && len(arr.Elements) == len(out) {
		for i, s := range out {
			d.checkRefs(arr.Elements[i], at+"/"+strconv.Itoa(i), s)
		}
	}
	return out
}
