package hosts

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/casys-ai/pml/core"
)

// maxItems bounds what one entry lists.
const maxItems = 500

// fields reads the members of an entry; why is the first thing that is wrong.
type fields struct {
	v   value
	why problem
}

func (f *fields) fail(why string) {
	if f.why == "" {
		f.why = problem(why)
	}
}

// text reads a string; one that is not there, or null, is empty.
func (f *fields) text(name string) string {
	v := f.v.get(name)
	switch v.kind {
	case 0, 'n':
	case '"':
		return f.checked(name, v.text)
	default:
		f.fail(name + " must be a string, not " + v.what())
	}
	return ""
}

// checked refuses what no process and no header can be given.
func (f *fields) checked(name, text string) string {
	if strings.ContainsRune(text, 0) {
		f.fail(core.Visible(name, 60, false) + " holds a zero byte")
	}
	return text
}

// address is the URL, under each of the names that hosts have for it.
func (f *fields) address() string {
	for _, name := range []string{"url", "serverUrl", "httpUrl"} {
		if s := f.text(name); s != "" {
			return s
		}
	}
	return ""
}

// texts reads a list of strings.
func (f *fields) texts(name string) []string {
	v := f.v.get(name)
	if v.kind != 0 && v.kind != 'n' && v.kind != '[' {
		f.fail(name + " must be a list, not " + v.what())
	}
	if len(v.items) > maxItems {
		f.fail(fmt.Sprintf("%s has %d items; at most %d are read", name, len(v.items), maxItems))
		return nil
	}
	var out []string
	for _, item := range v.items {
		switch item.kind {
		case '"', '0':
			out = append(out, f.checked(name, item.text))
		default:
			f.fail(name + " must hold strings only, not " + item.what())
		}
	}
	return out
}

// headerName is what RFC 9110 allows.
var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// table reads an object of strings. Numbers and booleans count as their text;
// null means that the name is not set.
func (f *fields) table(name string) map[string]string {
	v := f.v.get(name)
	if v.kind == 0 || v.kind == 'n' {
		return nil
	}
	if v.kind != '{' {
		f.fail(name + " must be an object, not " + v.what())
		return nil
	}
	if len(v.members) > maxItems {
		f.fail(fmt.Sprintf("%s has %d names; at most %d are read", name, len(v.members), maxItems))
		return nil
	}
	out := map[string]string{}
	for _, m := range v.members {
		shown := core.Visible(m.name, 60, false)
		switch {
		case name == "headers" && !headerName.MatchString(m.name):
			f.fail(`"` + shown + `" cannot be the name of a header`)
		case m.name == "" || strings.ContainsAny(m.name, "=\x00"):
			f.fail(`"` + shown + `" cannot be the name of a variable`)
		case m.kind == '{' || m.kind == '[':
			f.fail(name + ": " + shown + " must be a string, not " + m.what())
		case m.kind == 'n':
			delete(out, m.name)
		case name == "headers" && strings.ContainsAny(m.text, "\r\n"):
			f.fail("the header " + shown + " holds a line break")
		default:
			out[m.name] = f.checked(m.name, m.text)
		}
	}
	return out
}

// unusable says why an entry is left out whatever it names.
func unusable(v value) problem {
	switch {
	case v.get("disabled").text == "true" || v.get("enabled").text == "false":
		return "it is disabled there"
	case v.get("envFile").kind == '"':
		return "it takes variables from an envFile, which pml does not read: name them in env, and put their values into .env"
	case v.get("headersHelper").kind == '"':
		return "its headers come from a program (headersHelper), which pml does not run: name them in headers"
	}
	return ""
}

const oldTransport = problem("it uses the transport SSE, which is deprecated and which pml does not speak: if the server offers streamable HTTP too, often at a URL that ends in /mcp, add that with: pml servers add")

// checkShape says why what an entry names cannot be run or called.
func checkShape(kind string, e Entry) problem {
	switch strings.ToLower(kind) {
	case "", "stdio", "local", "http", "https", "streamable-http", "streamablehttp", "streamable_http", "remote":
	case "sse":
		return oldTransport
	default:
		return problem("pml has no transport " + core.Visible(kind, 30, false))
	}
	switch {
	case e.Command == "" && e.URL == "":
		return "it has neither a command nor a url"
	case e.Command != "" && e.URL != "":
		return "it has a command and a url; one of them is too many"
	case e.Command != "":
		if strings.ContainsAny(e.Command, " \t") && len(e.Args) == 0 && !strings.ContainsAny(e.Command, `/\`) {
			return "its command holds the arguments too: put them into args"
		}
		return ""
	case strings.Contains(e.URL, "${"):
		return ""
	}
	u, err := url.Parse(e.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "its url must begin with http:// or https:// and name a host"
	case kind == "" && strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/sse"):
		return oldTransport
	}
	return ""
}
