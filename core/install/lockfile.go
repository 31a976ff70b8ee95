package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonc"
	"github.com/casys-ai/pml/core/launch"
)

// maxLock bounds the bytes of a pml.lock: a tree of 1,000 packages needs less
// than one megabyte.
const maxLock = 32 << 20

// ReadLock reads a pml.lock. A file that is not there is an empty lock. What
// is wrong with one is core.CodeInvalidConfig with all faults and their
// positions; one of a newer version is core.CodeStoreNewer.
func ReadLock(file string) (Lock, error) {
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return NewLock(), nil
	}
	if err != nil {
		return Lock{}, core.Errorf(core.CodeInvalidConfig, "cannot read %s: %w", file, err)
	}
	return ParseLock(file, raw)
}

// NewLock is a lock that pins nothing.
func NewLock() Lock { return Lock{Version: LockVersion, Servers: map[string]LockEntry{}} }

// ParseLock reads the bytes of a pml.lock; file is its name for messages. Its
// errors are those of ReadLock.
func ParseLock(file string, raw []byte) (Lock, error) {
	r := lockReader{file: file}
	l := Lock{Servers: map[string]LockEntry{}}
	switch {
	case len(raw) > maxLock:
		r.doc = &jsonc.Doc{Source: jsonc.NewSource(nil)}
		r.fault(0, "", "is larger than 32 MB")
	default:
		doc, wrong := jsonc.ParseStrict(raw, maxDepth)
		r.doc = doc
		if wrong != nil {
			r.fault(wrong.Offset, "", "is "+wrong.Reason)
			break
		}
		version, _ := jsonc.Find(doc.Root, "version")
		if v, ok := version.Value.Value.(jsonc.Literal); ok && v.Kind() == '0' && v.Int() > LockVersion {
			return Lock{}, core.Errorf(core.CodeStoreNewer, "%s has version %d, this pml knows %d; update pml", file, v.Int(), LockVersion)
		}
		r.top(&l)
	}
	if len(r.faults) > 0 {
		e := core.Errorf(core.CodeInvalidConfig, "%s cannot be used", file)
		e.Faults = r.faults
		return Lock{}, e
	}
	return l, nil
}

// maxDepth bounds how deep objects and lists of a pml.lock are nested.
const maxDepth = 1000

// lockReader reads a pml.lock and collects what is wrong with it.
type lockReader struct {
	file   string
	doc    *jsonc.Doc
	faults []core.Fault
}

// fault notes what is wrong at a path; no more than 50 are kept.
func (r *lockReader) fault(offset int, path, message string) {
	if len(r.faults) < 50 {
		f := r.doc.Fault(offset, "%s", message)
		f.File, f.Path = r.file, core.Visible(path, 200, false)
		r.faults = append(r.faults, f)
	}
}

// object calls member for each member of an object.
func (r *lockReader) object(v jsonc.Value, path string, member func(name string, m jsonc.Member, path string)) {
	obj, ok := v.Value.(*jsonc.Object)
	if !ok {
		r.fault(v.StartOffset, path, "must be an object")
		return
	}
	seen := map[string]bool{}
	for _, m := range obj.Members {
		name := jsonc.Name(m)
		sub := path + "/" + strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
		if seen[name] {
			r.fault(m.Name.StartOffset, sub, "is there twice")
		}
		seen[name] = true
		member(name, m, sub)
	}
}

func (r *lockReader) array(v jsonc.Value, path string, element func(v jsonc.Value, path string)) {
	list, ok := v.Value.(*jsonc.Array)
	if !ok {
		r.fault(v.StartOffset, path, "must be a list")
		return
	}
	for i, e := range list.Elements {
		element(e, fmt.Sprintf("%s/%d", path, i))
	}
}

// text reads a string.
func (r *lockReader) text(v jsonc.Value, path string) string {
	text, ok := v.Value.(jsonc.Literal)
	if !ok || text.Kind() != '"' {
		r.fault(v.StartOffset, path, "must be a string")
		return ""
	}
	return text.String()
}

// digest reads a digest of pml's.
func (r *lockReader) digest(v jsonc.Value, path string) string {
	digest := r.text(v, path)
	if digest != "" && shortDigest(digest, 64) == "invalid" {
		r.fault(v.StartOffset, path, `must be "sha256:" and 64 hexadecimal digits`)
	}
	return digest
}

// unknown refuses a member whose name is not known.
func (r *lockReader) unknown(m jsonc.Member, path string, known ...string) {
	name := jsonc.Name(m)
	r.fault(m.Name.StartOffset, path, fmt.Sprintf("unknown key %q%s", core.Visible(name, 60, false), core.Suggest(name, known)))
}

func (r *lockReader) top(l *Lock) {
	r.object(r.doc.Root, "", func(name string, m jsonc.Member, path string) {
		switch name {
		case "version":
			if v, ok := m.Value.Value.(jsonc.Literal); !ok || string(v) != strconv.Itoa(LockVersion) {
				r.fault(m.Value.StartOffset, path, fmt.Sprintf("must be %d", LockVersion))
			}
			l.Version = LockVersion
		case "servers":
			r.object(m.Value, path, func(server string, m jsonc.Member, path string) { l.Servers[server] = r.entry(m.Value, path) })
		default:
			r.unknown(m, path, "version", "servers")
		}
	})
	if l.Version == 0 && len(r.faults) == 0 {
		r.fault(r.doc.Root.StartOffset, "/version", "is missing")
	}
}

func (r *lockReader) entry(v jsonc.Value, path string) LockEntry {
	var e LockEntry
	r.object(v, path, func(name string, m jsonc.Member, path string) {
		v := m.Value
		switch name {
		case "package":
			if e.Package = r.text(v, path); e.Package != "" && !launch.ValidName(e.Package) {
				r.fault(v.StartOffset, path, "is not the name of an npm package")
			}
		case "range":
			e.Range = r.text(v, path)
		case "version":
			e.Version = r.text(v, path)
		case "digest":
			e.Digest = r.digest(v, path)
		case "packages":
			r.array(v, path, func(v jsonc.Value, path string) { e.Packages = append(e.Packages, r.pkg(v, path)) })
		case "npm":
			if v.Value.Kind() != '{' {
				r.fault(v.StartOffset, path, "must be an object")
			}
			e.NPM = slices.Clone(r.doc.Text()[v.StartOffset:v.EndOffset])
		case "command_digest":
			e.CommandDigest = r.digest(v, path)
		case "file_digest":
			e.FileDigest = r.digest(v, path)
		case "tools":
			e.Tools = map[string]string{}
			r.object(v, path, func(tool string, m jsonc.Member, path string) { e.Tools[tool] = r.digest(m.Value, path) })
		case "readonly":
			r.array(v, path, func(v jsonc.Value, path string) { e.ReadOnly = append(e.ReadOnly, r.text(v, path)) })
		default:
			r.unknown(m, path, "package", "range", "version", "digest", "packages", "npm", "command_digest", "file_digest", "tools", "readonly")
		}
	})
	if e.Package == "" {
		return e
	}
	switch {
	case e.Digest == "" || e.Version == "":
		r.fault(v.StartOffset, path, "a package needs its version and digest")
	case !slices.IsSortedFunc(e.Packages, func(a, b Package) int { return strings.Compare(a.line(), b.line()) }) || packagesDigest(e.Packages) != e.Digest:
		r.fault(v.StartOffset, path, "digest is not that of the packages listed; restore the file from version control, or remove the entry")
	}
	return e
}

func (r *lockReader) pkg(v jsonc.Value, path string) Package {
	var p Package
	r.object(v, path, func(name string, m jsonc.Member, path string) {
		switch name {
		case "name":
			p.Name = r.text(m.Value, path)
		case "version":
			p.Version = r.text(m.Value, path)
		case "integrity":
			p.Integrity = r.text(m.Value, path)
		default:
			r.unknown(m, path, "name", "version", "integrity")
		}
	})
	return p
}

// Write writes the lock's entries to a pml.lock and keeps those of other
// servers that stand there; an empty entry removes its server. The file is
// replaced as a whole, sorted and indented, so that its diffs are small. A file
// that cannot be read is left alone, with ReadLock's error.
func (l Lock) Write(file string) error {
	return l.WriteAfter(file, func([]byte) error { return nil })
}

// WriteAfter is Write that first calls f with the bytes that it will write; an
// error of f is returned and nothing is written.
func (l Lock) WriteAfter(file string, f func([]byte) error) error {
	old, err := ReadLock(file)
	if err != nil {
		return err
	}
	data, err := old.With(l.Servers)
	if err != nil {
		return err
	}
	if err := f(data); err != nil {
		return err
	}
	// It is committed and read by others: not 0600.
	return replaceFile(file, data, 0o644)
}

// With is the text of the lock with other entries of some servers; an empty entry
// removes its server.
func (l Lock) With(servers map[string]LockEntry) ([]byte, error) {
	all := maps.Clone(l.Servers)
	for name, e := range servers {
		if e.empty() {
			delete(all, name)
			continue
		}
		all[name] = e
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	// Ranges such as >=1 stay readable.
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(Lock{Version: LockVersion, Servers: all}); err != nil {
		return nil, core.Errorf(core.CodeInternal, "cannot encode pml.lock: %w", err)
	}
	return b.Bytes(), nil
}

func (e LockEntry) empty() bool {
	return e.Package == "" && e.Digest == "" && e.CommandDigest == "" && e.FileDigest == "" && e.Tools == nil && len(e.ReadOnly) == 0 && len(e.NPM) == 0
}
