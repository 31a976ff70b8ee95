package flow

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonc"
)

// maxDepth bounds how deep values are nested in a file.
const maxDepth = 64

// Folder is what the files of a folder of flows say.
type Folder struct {
	Home bool
	// Flows are in the order of their files.
	Flows []*Flow
	// Modules are by id, Manifests by name.
	Modules   map[string]*Module
	Manifests map[string]*Manifest
	// Faults are those of modules and manifests.
	Faults []core.Fault

	files map[string][]byte
}

// Parse reads the files of a folder, by their paths in it, and checks every flow.
// Nothing is refused: what cannot be read is a flow with faults that is enabled and
// matches everything.
func Parse(files map[string][]byte, home bool) *Folder {
	d := &Folder{Home: home, Modules: map[string]*Module{}, Manifests: builtin(), files: files}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		d.read(name, files[name])
	}
	ids := map[string]*Flow{}
	for _, f := range d.Flows {
		if first := ids[f.ID]; f.ID != "" && first != nil {
			f.fault("/id", "the id %s is that of %s, too; give one of them another", quoted(f.ID), quoted(first.File))
		} else {
			ids[f.ID] = f
		}
		d.bind(f)
		f.validate()
		f.Faults = distinct(f.Faults)
	}
	return d
}

// distinct leaves out faults that say the same of the same place.
func distinct(faults []core.Fault) (out []core.Fault) {
	seen := map[string]bool{}
	for _, fault := range faults {
		if text := fault.String(); !seen[text] {
			seen[text] = true
			out = append(out, fault)
		}
	}
	return out
}

// ParseOne reads a text as the flow of a file in the folder, in the place of what the
// folder has there, and checks it.
func (d *Folder) ParseOne(name string, text []byte) *Flow {
	files := maps.Clone(d.files)
	if files == nil {
		files = map[string][]byte{}
	}
	files[name] = text
	for _, f := range Parse(files, d.Home).Flows {
		if f.File == name {
			return f
		}
	}
	f := &Flow{File: name, Home: d.Home, text: text}
	f.fault("", "is no flow: it has neither nodes, workflowType, match nor enabled")
	return f
}

// Files are what was parsed: by their paths in the folder. Nobody may change them.
func (d *Folder) Files() map[string][]byte {
	if d == nil {
		return nil
	}
	return d.files
}

// Flow returns a flow by its id, its name or its file; nil: there is none.
func (d *Folder) Flow(name string) *Flow {
	for _, is := range []func(*Flow) bool{
		func(f *Flow) bool { return f.ID == name },
		func(f *Flow) bool { return f.File == name || strings.TrimSuffix(f.File, path.Ext(f.File)) == name },
		func(f *Flow) bool { return f.Name == name },
	} {
		if i := slices.IndexFunc(d.Flows, is); i >= 0 {
			return d.Flows[i]
		}
	}
	return nil
}

// read reads one file.
func (d *Folder) read(name string, text []byte) {
	doc, wrong := jsonc.ParseStrict(text, maxDepth)
	r := &reader{file: name, doc: doc}
	broken := func(offset int, why string) {
		f := &Flow{ID: name, File: name, Home: d.Home, Enabled: true, text: text, unread: true}
		fault := doc.Fault(offset, "%s", why)
		fault.File = name
		f.Faults = []core.Fault{fault}
		d.Flows = append(d.Flows, f)
	}
	switch {
	case wrong != nil:
		broken(wrong.Offset, wrong.Reason+"; pml reads flows in JSON")
		return
	case core.CheckKeys("the file", text) != nil:
		broken(0, core.CheckKeys("the file", text).Error())
		return
	case doc.Root.Value.Kind() != '{':
		broken(doc.Root.StartOffset, "must be a JSON object")
		return
	}
	is := func(key string) bool { _, ok := jsonc.Find(doc.Root, key); return ok }
	dir, _, within := strings.Cut(name, "/")
	switch {
	case !within || is("enabled") || is("match") || is("workflowType") || is("nodes"):
		d.Flows = append(d.Flows, r.flow(doc.Root, d.Home))
	case dir == "modules":
		if m := r.module(doc.Root); m.ID != "" {
			d.Modules[m.ID] = m
		}
		d.Faults = append(d.Faults, r.faults...)
	case dir == "nodes":
		if m := r.manifest(doc.Root); m.Name != "" {
			d.Manifests[m.Name] = m
		}
		d.Faults = append(d.Faults, r.faults...)
	}
}

// bind gives the nodes of a flow the scripts that it shares, and the flow its digest.
func (d *Folder) bind(f *Flow) {
	used := map[string]bool{f.File: true}
	for i, n := range f.Nodes {
		at := "/nodes/" + strconv.Itoa(i) + "/data"
		switch name, isTemplate := strings.CutPrefix(n.Type, TypeTemplate); {
		case isTemplate:
			if n.Manifest = d.Manifests[name]; n.Manifest == nil {
				f.nodeFault(n, at, "there is no node manifest %s%s; manifests are nodes/*.json in the folder of flows", quoted(name), core.Suggest(name, slices.Sorted(maps.Keys(d.Manifests))))
				continue
			}
			n.Script = n.Manifest.Script
			used[n.Manifest.File] = n.Manifest.File != ""
		case n.Type == TypeHook && n.Data.Hook != nil && n.Data.Hook.Module != "":
			m := d.Modules[n.Data.Hook.Module]
			if m == nil {
				f.nodeFault(n, at+"/hook/hookModuleId", "there is no module %s%s; modules are modules/*.json in the folder of flows", quoted(n.Data.Hook.Module), core.Suggest(n.Data.Hook.Module, slices.Sorted(maps.Keys(d.Modules))))
				continue
			}
			n.Script = m.Script
			used[m.File] = true
		case n.Type == TypeHook && n.Data.Hook != nil:
			n.Script = n.Data.Hook.Script
		}
	}
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if used[name] {
			fmt.Fprintf(sum, "%d %s\n%d ", len(name), name, len(d.files[name]))
			sum.Write(d.files[name])
		}
	}
	f.Digest = "sha256:" + hex.EncodeToString(sum.Sum(nil))
}

// Text is the flow's file, byte by byte.
func (f *Flow) Text() []byte { return slices.Clone(f.text) }

// fault adds a fault at a JSON pointer of the flow's file.
func (f *Flow) fault(at, format string, args ...any) {
	fault := core.Fault{File: f.File, Path: at, Message: fmt.Sprintf(format, args...)}
	for ok := false; !ok && len(f.positions) > 0; at = at[:max(0, strings.LastIndexByte(at, '/'))] {
		var pos core.Position
		if pos, ok = f.positions[at]; ok {
			fault.At = &pos
		}
		if at == "" {
			break
		}
	}
	f.Faults = append(f.Faults, fault)
}

// nodeFault adds a fault of a node, which it names.
func (f *Flow) nodeFault(n *Node, at, format string, args ...any) {
	f.fault(at, "node %s: "+format, append([]any{quoted(n.ID)}, args...)...)
}

// NodeOf returns the id of the node that a fault of the flow is about; empty: none.
func (f *Flow) NodeOf(fault core.Fault) string {
	rest, ok := strings.CutPrefix(fault.Path, "/nodes/")
	index, _, _ := strings.Cut(rest, "/")
	if i, err := strconv.Atoi(index); ok && err == nil && i >= 0 && i < len(f.Nodes) {
		return f.Nodes[i].ID
	}
	return ""
}

// reader decodes one file. Keys count by their exact names, and what is wrong with
// one value does not hide the others.
type reader struct {
	file   string
	doc    *jsonc.Doc
	faults []core.Fault
	at     map[string]core.Position
}

func (r *reader) raw(v jsonc.Value) json.RawMessage {
	return json.RawMessage(r.doc.Text()[v.StartOffset:v.EndOffset])
}

func (r *reader) fault(v jsonc.Value, at, format string, args ...any) {
	f := r.doc.Fault(v.StartOffset, format, args...)
	f.File, f.Path = r.file, at
	r.faults = append(r.faults, f)
}

// fields decodes the members of an object: into a pointer, or by a function.
func (r *reader) fields(v jsonc.Value, at string, fields map[string]any) {
	obj, ok := v.Value.(*jsonc.Object)
	if !ok {
		if string(r.raw(v)) != "null" {
			r.fault(v, at, "must be an object")
		}
		return
	}
	for _, m := range obj.Members {
		name := jsonc.Name(m)
		to := fields[name]
		if to == nil {
			continue // kept as it is
		}
		path := member(at, name)
		r.mark(m.Value, path)
		switch to := to.(type) {
		case func(jsonc.Value, string):
			to(m.Value, path)
		case *json.RawMessage:
			*to = r.raw(m.Value)
		default:
			if err := json.Unmarshal(r.raw(m.Value), to); err != nil {
				r.fault(m.Value, path, "must be %s", kindOf(to))
			}
		}
	}
}

// member is the JSON pointer of a member of the object at a pointer.
func member(at, name string) string {
	return at + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// mark remembers where a value stands.
func (r *reader) mark(v jsonc.Value, at string) {
	if r.at == nil {
		r.at = map[string]core.Position{}
	}
	r.at[at] = r.doc.At(v.StartOffset)
}

// each calls do with the elements of a list.
func (r *reader) each(v jsonc.Value, at string, do func(jsonc.Value, string)) {
	list, ok := v.Value.(*jsonc.Array)
	if !ok {
		if string(r.raw(v)) != "null" {
			r.fault(v, at, "must be a list")
		}
		return
	}
	for i, e := range list.Elements {
		r.mark(e, at+"/"+strconv.Itoa(i))
		do(e, at+"/"+strconv.Itoa(i))
	}
}

// kindOf says what a value must be to fit a field.
func kindOf(field any) string {
	switch field.(type) {
	case *string:
		return "text"
	case *bool, **bool:
		return "true or false"
	case *int, *int64:
		return "a whole number"
	case *float64:
		return "a number"
	case *[]string:
		return "a list of texts"
	case *map[string]string:
		return "an object of texts"
	}
	return "an object"
}
