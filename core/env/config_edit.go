package env

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonc"
)

// change returns the text of a configuration file after an edit; every byte that is
// not part of what changes stays. Empty text counts as an empty object. A text that
// could not be loaded, before or afterwards, is core.CodeInvalidConfig.
func change(name string, text []byte, edit func(*jsonc.Doc) (jsonc.Edit, error)) ([]byte, error) {
	doc, _, err := openConfig(name, text)
	if err != nil {
		return nil, err
	}
	e, err := edit(doc)
	if err != nil || e == (jsonc.Edit{}) {
		return text, err
	}
	out, _ := e.Apply(doc.Text())
	if _, faults := parseFile(name, FromHome, out); len(faults) > 0 {
		return nil, invalid(faults)
	}
	return out, nil
}

// openConfig reads a text that can be loaded.
func openConfig(name string, text []byte) (*jsonc.Doc, *file, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{}\n")
	}
	f, faults := parseFile(name, FromHome, text)
	if len(faults) > 0 {
		return nil, nil, invalid(faults)
	}
	doc, _, _ := parseJSONC(text)
	return doc, f, nil
}

// SetServer returns the text of a configuration file with an entry of
// mcpServers added or replaced, comments, order and layout kept. Empty text
// counts as an empty file. It writes nothing. Errors as for AddRule.
func SetServer(name string, text []byte, entry ServerEntry) ([]byte, error) {
	return change(name, text, func(d *jsonc.Doc) (jsonc.Edit, error) { return d.Set([]string{"mcpServers", entry.Name}, entry) })
}

// RemoveServer returns the text of a configuration file without an entry. One
// that has none is core.CodeNoSuchTool with the nearest name.
func RemoveServer(name string, text []byte, server string) ([]byte, error) {
	return change(name, text, func(d *jsonc.Doc) (jsonc.Edit, error) {
		servers, _ := jsonc.Find(d.Root, "mcpServers")
		entry, ok := jsonc.Find(servers.Value, server)
		if !ok {
			f, _ := parseFile(name, FromHome, d.Text())
			return jsonc.Edit{}, core.Errorf(core.CodeNoSuchTool, "%s has no MCP server %q%s", name,
				core.Visible(server, 60, false), core.Suggest(server, slices.Sorted(maps.Keys(f.layer.Servers)))).
				WithNext("pml", "servers", "ls")
		}
		return d.Remove(entry), nil
	})
}

// SetPin returns the text of the home's configuration with the hash of a PIN;
// an empty hash removes it.
func SetPin(name string, text []byte, hash string) ([]byte, error) {
	return change(name, text, func(d *jsonc.Doc) (jsonc.Edit, error) {
		if hash != "" {
			return d.Set([]string{"approvals", "pin"}, hash)
		}
		approvals, _ := jsonc.Find(d.Root, "approvals")
		pin, ok := jsonc.Find(approvals.Value, "pin")
		if !ok {
			return jsonc.Edit{}, nil
		}
		return d.Remove(pin), nil
	})
}

// SetDecider returns the text of a workspace's configuration with who decides: only
// people, or with agents an agent as well; with dialog what a person answers in the
// dialog of the agent's host is enough, too.
func SetDecider(name string, text []byte, agents, dialog bool) ([]byte, error) {
	decider := DeciderHuman
	if agents {
		decider = DeciderAny
	}
	text, err := change(name, text, func(d *jsonc.Doc) (jsonc.Edit, error) { return d.Set([]string{"approvals", "decider"}, decider) })
	if err != nil {
		return text, err
	}
	return change(name, text, func(d *jsonc.Doc) (jsonc.Edit, error) {
		approvals, _ := jsonc.Find(d.Root, "approvals")
		if _, said := jsonc.Find(approvals.Value, "trust_host"); !said && !dialog {
			return jsonc.Edit{}, nil
		}
		return d.Set([]string{"approvals", "trust_host"}, dialog)
	})
}

// AddKeys returns the text of a .env with variables added at its end, quoted so
// that ParseDotEnv reads them back, sorted by name. Variables that it has
// already, other than empty or with a placeholder, stay as they are. It writes
// nothing. Errors: core.CodeInvalidConfig for a text with malformed lines,
// core.CodeInvalidArguments for a name or value that the format cannot hold;
// a value is never part of an error.
func AddKeys(name string, text []byte, values map[string]string) ([]byte, error) {
	have, faults := ParseDotEnv(name, text)
	if len(faults) > 0 {
		return nil, &core.Error{Code: core.CodeInvalidConfig, Message: "the file with the keys is not valid; correct it and try again", Faults: faults}
	}
	newline := "\n"
	if bytes.Contains(text, []byte("\r\n")) {
		newline = "\r\n"
	}
	out := bytes.Clone(text)
	want := maps.Clone(have)
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if !unfilled(have[key]) {
			continue
		}
		quoted, ok := quoteValue(key, values[key])
		if !ok || !validName(key) {
			return nil, core.Errorf(core.CodeInvalidArguments, "%s cannot be written to %s: its name or value has characters that the file cannot hold; set it in the environment",
				core.Visible(key, 60, false), name)
		}
		if len(out) > 0 && !bytes.HasSuffix(out, []byte("\n")) {
			out = append(out, newline...)
		}
		out = append(out, key+"="+quoted+newline...)
		want[key] = values[key]
	}
	got, faults := ParseDotEnv(name, out)
	if len(faults) > 0 || !maps.Equal(got, want) {
		return nil, core.Errorf(core.CodeInvalidConfig, "keys cannot be added to %s: what stands at its end takes them in; a quote or a line end may be missing", name)
	}
	return out, nil
}

// quoteValue writes a value so that it is read back as it is: without quotes
// where nothing in it is special, else in the quotes that can hold it.
func quoteValue(key, value string) (string, bool) {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "$", `\$`)
	for _, text := range []string{value, "'" + value + "'", `"` + escape.Replace(value) + `"`, strings.ReplaceAll(value, "$", `\$`)} {
		if text == value && !plainValue(value) || strings.ContainsAny(text, "\n\r") {
			continue
		}
		// The line stands alone and before another one.
		for _, after := range []string{"", "\n" + key + "_=z"} {
			got, faults := ParseDotEnv(".env", []byte(key+"="+text+after))
			if len(faults) > 0 || got[key] != value || len(got) > 2 {
				text = ""
				break
			}
		}
		if text != "" {
			return text, true
		}
	}
	return "", value == ""
}

// plainValue reports whether other programs that read .env would not see
// anything special in a value either.
func plainValue(s string) bool {
	return s != "" && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.:/@%+=,") == ""
}

// Unfilled reports whether a value stands for a key that nobody has filled in:
// it is empty or a placeholder.
func Unfilled(value string) bool { return unfilled(value) }

// PinIn returns the value of approvals.pin in the text of a configuration
// file, so that it can be left out of what is shown; empty if there is none.
func PinIn(text []byte) string {
	f, _ := parseFile("", FromHome, text)
	if f.layer.Approvals.Pin == nil {
		return ""
	}
	return *f.layer.Approvals.Pin
}

// ServersIn returns the entries of mcpServers in the text of a configuration
// file, by name. Empty text has none. A text that could not be loaded is
// core.CodeInvalidConfig.
func ServersIn(name string, text []byte) (map[string]ServerEntry, error) {
	_, f, err := openConfig(name, text)
	if err != nil {
		return nil, err
	}
	out := map[string]ServerEntry{}
	for server, e := range f.layer.Servers {
		out[server] = *e
	}
	return out, nil
}
