package hosts

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonc"
)

// Edit replaces one part of a text.
type Edit = jsonc.Edit

// Standing is how a file has pml.
type Standing struct {
	// There says that it has an entry for pml, Same that this starts pml as the
	// wanted one would.
	There, Same bool
	Name        string // of the entry; a person may have chosen another one
	// Digest is of what the entry means, whatever its layout.
	Digest string
	// Shown are lines that describe the entry, with nothing in them that could be
	// secret.
	Shown []string
}

// document is the text of a host's configuration, in one of the formats.
type document interface {
	// entry finds an entry of the table of servers.
	entry(name string) (value, bool)
	names() []string
	// set gives pml an entry, in the place of the one that it has.
	set(e Entry) (Edit, error)
	// drop takes pml's entry out, or puts another text in its place.
	drop(instead string) (Edit, error)
	// rest is the meaning of everything but pml's entry and a table that is
	// empty without it, equal for equal meanings.
	rest() string
}

// open reads a text for changes. What cannot be read, or could be understood in
// two ways, is core.CodeInvalidConfig: it is not made worse.
func (t Target) open(text []byte) (document, error) {
	if t.Hook != "" {
		return t.openHooks(text)
	}
	if t.key == codexKey {
		return t.openTOML(text)
	}
	return t.openJSON(text)
}

// refused is the error for a text that is left alone.
func (t Target) refused(f core.Fault) error {
	f.File = t.File
	return &core.Error{
		Code: core.CodeInvalidConfig, Faults: []core.Fault{f},
		Message: core.Visible(t.File, 200, false) + " is left as it is: " + f.Message + "; correct it and try again",
	}
}

// Look says how a text has pml, beside the entry that is wanted.
func (t Target) Look(text []byte, want Entry) (Standing, error) {
	doc, err := t.open(text)
	if err != nil {
		return Standing{}, err
	}
	if v, ok := doc.entry(ownName); ok {
		have, runs := t.entryOf(ownName, v)
		shown := describe(v)
		if h, ok := doc.(*hookText); ok {
			shown = h.shown()
		}
		return Standing{There: true, Same: runs && t.starts(have, want), Name: ownName, Digest: digestOf(v), Shown: shown}, nil
	}
	for _, name := range doc.names() {
		v, _ := doc.entry(name)
		if have, runs := t.entryOf(name, v); runs && isPML(have) && t.starts(have, want) {
			return Standing{There: true, Same: true, Name: name, Digest: digestOf(v), Shown: describe(v)}, nil
		}
	}
	return Standing{}, nil
}

// Entries are the names of the entries that start pml, whoever has written them and however they
// start it: the one of pml's own name first.
func (t Target) Entries(text []byte) ([]string, error) {
	doc, err := t.open(text)
	if err != nil {
		return nil, err
	}
	var out []string
	if _, ok := doc.entry(ownName); ok {
		out = append(out, ownName)
	}
	for _, name := range doc.names() {
		v, _ := doc.entry(name)
		if e, runs := t.entryOf(name, v); name != ownName && runs && isPML(e) {
			out = append(out, name)
		}
	}
	return out, nil
}

// Set returns the edit that gives pml the entry, in the place of one that is
// there already. All other entries mean afterwards what they meant before, or
// it is an error.
func (t Target) Set(text []byte, e Entry) (Edit, error) {
	doc, err := t.open(text)
	if err != nil {
		return Edit{}, err
	}
	edit, err := doc.set(e)
	if err != nil {
		return Edit{}, err
	}
	after, ok := edit.Apply(text)
	if !ok || !t.proves(doc, after, func(now document) bool {
		v, there := now.entry(ownName)
		have, _ := t.entryOf(ownName, v)
		return there && have.Command == e.Command && slices.Equal(have.Args, e.Args) && maps.Equal(have.Env, e.Env)
	}) {
		return Edit{}, t.refused(core.Fault{Message: "pml finds no place in it that is certain to be right"})
	}
	return edit, nil
}

// Unset returns the edit that takes away what an earlier edit of Set has
// brought, wherever that stands by now. What stood there before comes back. A
// text without an entry is core.CodeNoSuchTool.
func (t Target) Unset(text []byte, was Edit) (Edit, error) {
	doc, err := t.open(text)
	if err != nil {
		return Edit{}, err
	}
	v, ok := doc.entry(ownName)
	if !ok {
		return Edit{}, core.Errorf(core.CodeNoSuchTool, "%s has no entry for pml", core.Visible(t.File, 200, false))
	}
	instead := was.Old
	if strings.TrimSpace(strings.TrimPrefix(instead, string(bom))) == "" {
		instead = ""
	}
	other := func(now document) bool {
		left, there := now.entry(ownName)
		return !there || instead != "" && digestOf(left) != digestOf(v)
	}
	back := was.Reverse()
	if !hasAt(text, was) && bytes.Count(text, []byte(was.New)) == 1 {
		back.At = bytes.Index(text, []byte(was.New))
	}
	if after, ok := back.Apply(text); ok && was.New != "" && !overlaps(back, v) && t.proves(doc, after, other) {
		return back, nil
	}
	if edit, err := doc.drop(instead); err == nil {
		if after, ok := edit.Apply(text); ok && t.proves(doc, after, other) {
			return edit, nil
		}
	}
	return Edit{}, t.refused(core.Fault{Message: "pml cannot take its entry out and be certain that the rest stays what it is"})
}

func hasAt(text []byte, e Edit) bool {
	_, ok := e.Reverse().Apply(text)
	return ok
}

// overlaps reports whether an edit leaves a part of an entry that has a place.
func overlaps(e Edit, v value) bool {
	return v.end > v.at && (v.at < e.At || v.end > e.At+len(e.Old))
}

// proves reports whether a text can be read, and all but pml's entry means what
// it did.
func (t Target) proves(before document, after []byte, also func(document) bool) bool {
	now, err := t.open(after)
	return err == nil && now.rest() == before.rest() && also(now)
}

// Blank reports whether a text has nothing left that a person could miss, so
// that a file which pml has made can go.
func (t Target) Blank(text []byte) bool {
	doc, err := t.open(text)
	empty, eerr := t.open(nil)
	if err != nil || eerr != nil || doc.rest() != empty.rest() {
		return false
	}
	_, there := doc.entry(ownName)
	return !there && !bytes.ContainsAny(text, "#/")
}

// digestOf is that of what a value means.
func digestOf(v value) string {
	raw, err := json.Marshal(meaning(v))
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// meaning is a value without its places. Numbers stay the text that they are,
// and of a name that stands twice the last one counts.
func meaning(v value) any {
	switch v.kind {
	case '{':
		out := map[string]any{}
		for _, m := range v.members {
			out[m.name] = meaning(m.value)
		}
		return out
	case '[':
		out := make([]any, 0, len(v.items))
		for _, item := range v.items {
			out = append(out, meaning(item))
		}
		return out
	}
	return []string{string(v.kind), v.text}
}

// restOf is the meaning of a whole file without pml's entry.
func restOf(root value, key string) string {
	all, _ := meaning(root).(map[string]any)
	if servers, ok := all[key].(map[string]any); ok {
		delete(servers, ownName)
		if len(servers) == 0 {
			delete(all, key)
		}
	}
	raw, err := json.Marshal(all)
	if err != nil {
		return ""
	}
	return string(raw)
}

// describe says what an entry holds. Values of the environment, and whatever
// could be a key, are left out: the entry may be anybody's.
func describe(v value) []string {
	if v.kind != '{' {
		return []string{"pml: " + v.what()}
	}
	f := &fields{v: v}
	e := Entry{Name: ownName, URL: f.address()}
	if v.get("command").kind == '[' {
		e.Command, e.Args = split(f.texts("command"))
	} else {
		e.Command, e.Args = f.text("command"), f.texts("args")
	}
	e = Conceal(e)
	var out []string
	say := func(name, text string) {
		if text != "" {
			out = append(out, name+": "+text)
		}
	}
	say("command", e.Command)
	if len(e.Args) > 0 {
		say("args", strings.Join(e.Args, " "))
	}
	say("url", e.URL)
	table := v.get("env")
	for _, m := range table.members {
		text := "…"
		if m.name == workspaceVariable {
			text = m.text
		}
		say("env "+m.name, text)
	}
	for _, m := range v.members {
		if !slices.Contains([]string{"command", "args", "env", "url", "serverUrl", "httpUrl", "type"}, m.name) {
			say(m.name, "…")
		}
	}
	return out
}
