package asked

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core/diff"
)

// File is what a call would do to a file of the workspace, as it stood when the
// question was made. It is part of the question, so that everybody who is asked sees
// the same, also on another machine than the file's.
type File struct {
	Path  string    `json:"path"`
	State FileState `json:"state"`
	// Why says, of a file that cannot be compared, why not.
	Why     string `json:"why,omitempty"`
	Added   int    `json:"added,omitempty"`
	Removed int    `json:"removed,omitempty"`
	// Diff are the lines that change, with three around each: "+", "-", " " and "@@".
	// It is empty of a new file, whose lines are all new, and where Why is set.
	Diff string `json:"diff,omitempty"`
}

// FileState is what becomes of a file.
type FileState string

// The states of a file.
const (
	FileNew     FileState = "new"
	FileChanged FileState = "changed"
	FileSame    FileState = "same"    // nothing changes
	FileUnknown FileState = "unknown" // it could not be compared
)

// maxDiff bounds a difference that is part of a question.
const maxDiff = 128 << 10

// Compare says what a file becomes: before is its content, nil of one that does not
// exist, after what would be in it.
func Compare(path string, before *string, after string) File {
	f := File{Path: path}
	switch {
	case before == nil:
		f.State, f.Added = FileNew, countLines(after)
		return f
	case *before == after:
		f.State = FileSame
		return f
	}
	f.State = FileChanged
	text := diff.Lines(*before, after)
	for line := range strings.Lines(text) {
		switch line[0] {
		case '+':
			f.Added++
		case '-':
			f.Removed++
		}
	}
	switch had, has := strings.HasSuffix(*before, "\n"), strings.HasSuffix(after, "\n"); {
	case had && !has:
		text += "@@ the newline at its end goes @@\n"
	case has && !had:
		text += "@@ a newline comes to its end @@\n"
	}
	if len(text) > maxDiff {
		f.Why = "it changes in too many places for a difference"
		return f
	}
	f.Diff = text
	return f
}

// Changes lays out what differs between the arguments that were asked about and those
// that a person has made of them.
func Changes(before, now json.RawMessage) []Line {
	b := &builder{}
	b.difference(diff.Lines(lines(before), lines(now)))
	return b.done()
}

// lines are arguments laid out, as one text.
func lines(args json.RawMessage) string {
	var out strings.Builder
	for _, l := range Arguments(args, nil) {
		if l.Label != "" {
			out.WriteString(l.Label + "  ")
		}
		out.WriteString(l.Text + "\n")
	}
	return out.String()
}

// Edit is one replacement in a file.
type Edit struct {
	Old, New string
	All      bool
}

// Written is what the arguments of a call would put into a file: its whole content,
// or replacements in it. ok is false where they do neither.
type Written struct {
	Path    string
	Content *string
	Edits   []Edit
}

// names are those by which agents' hosts call the arguments of a tool that writes files.
var names = map[string]string{
	"path": "file_path", "old": "old_string", "new": "new_string", "all": "replace_all", "oldText": "old_string", "newText": "new_string",
}

// named is an argument by its name, or by the one that agents' hosts have for it.
func named(of map[string]json.RawMessage, name string) json.RawMessage {
	if raw := of[name]; raw != nil {
		return raw
	}
	return of[names[name]]
}

// isNamed reports whether a key is one of some names, or what hosts call it.
func isNamed(key string, list ...string) bool {
	return slices.ContainsFunc(list, func(name string) bool { return key == name || key == names[name] })
}

// WrittenBy reads the arguments of a tool that writes files: path and content, path
// and edits, or path, old and new, by these names or those of agents' hosts. Arguments that servers could read in two ways (a key
// that is there twice, or in other letters) are none of these.
func WrittenBy(args json.RawMessage) (w Written, ok bool) {
	of, ok := exact(args)
	if !ok || !isText(named(of, "path"), &w.Path) || w.Path == "" {
		return w, false
	}
	var content, old, now string
	if isText(of["content"], &content) {
		w.Content = &content
	}
	var edits []json.RawMessage
	if raw := of["edits"]; raw != nil && json.Unmarshal(raw, &edits) != nil {
		return w, false
	}
	for _, raw := range edits {
		e, ok := exact(raw)
		if !ok || !isText(named(e, "oldText"), &old) || !isText(named(e, "newText"), &now) {
			return w, false
		}
		w.Edits = append(w.Edits, Edit{Old: old, New: now})
	}
	if isText(named(of, "old"), &old) && isText(named(of, "new"), &now) {
		w.Edits = append(w.Edits, Edit{Old: old, New: now, All: string(bytes.TrimSpace(named(of, "all"))) == "true"})
	}
	return w, (w.Content != nil) != (len(w.Edits) > 0)
}

// exact returns the members of an object that has no key twice, not even in other
// letters, and no argument under both of its names.
func exact(raw json.RawMessage) (map[string]json.RawMessage, bool) {
	fields, ok := Fields(raw)
	if !ok {
		return nil, false
	}
	out, seen := make(map[string]json.RawMessage, len(fields)), map[string]bool{}
	for _, f := range fields {
		folded := strings.ToLower(f.Key)
		if seen[folded] {
			return nil, false
		}
		seen[folded], out[f.Key] = true, f.Value
	}
	for name, other := range names {
		if seen[strings.ToLower(name)] && seen[other] {
			return nil, false
		}
	}
	return out, true
}

// isText reads a JSON text.
func isText(raw json.RawMessage, into *string) bool {
	return bytes.HasPrefix(bytes.TrimSpace(raw), []byte(`"`)) && json.Unmarshal(raw, into) == nil
}

// After is what is in the file after the call; why says why pml does not know it.
func (w Written) After(before string) (after, why string) {
	if w.Content != nil {
		return *w.Content, ""
	}
	for _, e := range w.Edits {
		switch n := strings.Count(before, e.Old); {
		case e.Old == "" || n == 0:
			return "", "the text to replace does not occur in the file as it is"
		case n > 1 && e.All:
			before = strings.ReplaceAll(before, e.Old, e.New)
		default:
			before = strings.Replace(before, e.Old, e.New, 1)
		}
	}
	return before, ""
}

// file lays out what becomes of a file, and returns the arguments that this does not
// say already.
func (b *builder) file(fields []Field, f File) []Field {
	said := []string{"content"}
	switch {
	case f.State == FileNew:
		b.add("file", "new: "+countOf(f.Added), Note)
		if content, ok := textOf(fields, "content"); ok {
			b.block(content, "+", Added)
		}
	case f.State == FileSame:
		b.add("file", "nothing changes: this is what is in it", Note)
	case f.Diff == "":
		b.add("file", "no difference can be shown: "+f.Why, Note)
		b.replacements(fields)
		said = []string{"old", "new", "edits"}
	default:
		b.add("file", fmt.Sprintf("+%d -%d, against the file as it was when this was shown", f.Added, f.Removed), Note)
		b.difference(f.Diff)
		said = append(said, "old", "new", "edits")
	}
	path := slices.IndexFunc(fields, func(f Field) bool { return isNamed(f.Key, "path") })
	if path > 0 { // which file it is comes first
		b.lines = slices.Concat(pathLine(fields[path]), b.lines)
	} else if path == 0 {
		b.lines = slices.Concat(pathLine(fields[0]), b.lines)
	}
	return slices.DeleteFunc(slices.Clone(fields), func(f Field) bool { return isNamed(f.Key, "path") || isNamed(f.Key, said...) })
}

func pathLine(f Field) []Line {
	b := &builder{}
	b.value("path", f.Value, 0)
	return b.lines
}

func countOf(n int) string {
	if n == 1 {
		return "1 line"
	}
	return fmt.Sprintf("%d lines", n)
}

func textOf(fields []Field, key string) (text string, ok bool) {
	for _, f := range fields {
		if f.Key == key && isText(f.Value, &text) {
			return text, true
		}
	}
	return "", false
}

// difference lays out the lines of a difference.
func (b *builder) difference(text string) {
	b.each(text, func(line string) {
		kind := Plain
		switch {
		case strings.HasPrefix(line, "+"):
			kind = Added
		case strings.HasPrefix(line, "-"):
			kind = Removed
		case strings.HasPrefix(line, "@@"):
			kind = Place
		}
		b.add("", line, kind)
	})
}

// replacements lays out what is replaced by what, where the file itself cannot say.
func (b *builder) replacements(fields []Field) {
	raw, err := json.Marshal(rawFields(fields))
	if err != nil {
		return
	}
	w, ok := WrittenBy(raw)
	if !ok {
		return
	}
	for _, e := range w.Edits {
		b.add("", "@@ replace @@", Place)
		b.block(e.Old, "-", Removed)
		b.block(e.New, "+", Added)
	}
}

func rawFields(fields []Field) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for _, f := range fields {
		out[f.Key] = f.Value
	}
	return out
}
