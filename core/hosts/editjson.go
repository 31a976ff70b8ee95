package hosts

import (
	"bytes"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonc"
)

// jsonText is a configuration in JSON, comments allowed.
type jsonText struct {
	t    Target
	doc  *jsonc.Doc
	root value
	list value // the table of servers; none: there is none yet
}

func (t Target) openJSON(text []byte) (document, error) {
	if len(bytes.TrimSpace(bytes.TrimPrefix(text, bom))) == 0 {
		return &jsonText{t: t, doc: &jsonc.Doc{Source: jsonc.NewSource(text)}, root: value{kind: '{'}}, nil
	}
	root, doc, fault := parse(text)
	if fault != nil {
		return nil, t.refused(*fault)
	}
	if root.kind != '{' {
		return nil, t.refused(doc.Fault(root.at, "it must be an object, not %s", root.what()))
	}
	j := &jsonText{t: t, doc: doc, root: root, list: root.get(t.key)}
	switch {
	case root.count(t.key) > 1:
		return nil, t.refused(doc.Fault(j.list.at, "%q stands twice in it", t.key))
	case j.list.kind != 0 && j.list.kind != '{':
		return nil, t.refused(doc.Fault(j.list.at, "%q must be an object, not %s", t.key, j.list.what()))
	case j.list.count(ownName) > 1:
		return nil, t.refused(doc.Fault(j.list.get(ownName).at, "%q stands twice in %q", ownName, t.key))
	}
	return j, nil
}

func (j *jsonText) entry(name string) (value, bool) {
	v := j.list.get(name)
	return v, v.kind != 0
}

func (j *jsonText) names() []string {
	var out []string
	for _, m := range j.list.members {
		out = append(out, m.name)
	}
	return out
}

func (j *jsonText) rest() string { return restOf(j.root, j.t.key) }

// The levels of objects that stand on lines of their own: those of an entry, and of
// a table with an entry in it.
const (
	entryLevels = 1
	tableLevels = 2
)

// set puts a new entry before the others: then no byte of theirs changes, not
// even a comma.
func (j *jsonText) set(e Entry) (Edit, error) {
	text := j.doc.Text()
	if j.doc.Root.Value == nil {
		return j.fill(e)
	}
	own := j.t.jsonEntry(e)
	list, ok := jsonc.Find(j.doc.Root, j.t.key)
	if old, there := jsonc.Find(list.Value, ownName); there {
		return j.doc.Replace(old, own, entryLevels)
	}
	var edits []Edit
	var err error
	if ok {
		edits, err = j.doc.Prepend(list.Value, ownName, own, entryLevels)
	} else {
		edits, err = j.doc.Prepend(j.doc.Root, j.t.key, map[string]any{ownName: own}, tableLevels)
	}
	if err != nil {
		return Edit{}, err
	}
	for _, edit := range edits {
		if after, ok := edit.Apply(text); ok {
			if now, err := j.t.openJSON(after); err == nil {
				if _, there := now.entry(ownName); there {
					return edit, nil
				}
			}
		}
	}
	return Edit{}, j.t.refused(core.Fault{Message: "pml finds no place in it"})
}

// fill writes a text in the place of one that is blank.
func (j *jsonText) fill(e Entry) (Edit, error) {
	text := j.doc.Text()
	empty, err := j.t.openJSON([]byte("{}" + jsonc.Newline(text)))
	if err != nil {
		return Edit{}, err
	}
	edit, err := empty.set(e)
	if err != nil {
		return Edit{}, err
	}
	body, _ := edit.Apply([]byte("{}" + jsonc.Newline(text)))
	return Edit{Old: string(text), New: string(body)}, nil
}

// drop takes the entry out with its comma, and its lines where nothing else
// stands on them.
func (j *jsonText) drop(instead string) (Edit, error) {
	list, _ := jsonc.Find(j.doc.Root, j.t.key)
	own, _ := jsonc.Find(list.Value, ownName)
	if instead != "" {
		at, end := own.Value.StartOffset, own.Value.EndOffset
		return Edit{At: at, Old: string(j.doc.Text()[at:end]), New: instead}, nil
	}
	return j.doc.Remove(own), nil
}

// jsonEntry is an entry as hosts write it in JSON.
type jsonEntry struct {
	Type    string            `json:"type,omitempty"`
	Command any               `json:"command"` // a list where the arguments are in it
	Args    []string          `json:"args,omitzero"`
	Enabled bool              `json:"enabled,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
}

func (t Target) jsonEntry(e Entry) jsonEntry {
	out := jsonEntry{Type: t.kind, Command: e.Command, Args: append([]string{}, e.Args...)}
	if t.joined {
		out.Command, out.Args, out.Enabled = append([]string{e.Command}, e.Args...), nil, true
	}
	if dir, ok := e.Env[workspaceVariable]; ok {
		out.Env = map[string]string{workspaceVariable: dir}
	}
	return out
}
