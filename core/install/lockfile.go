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
	"strings"

	"github.com/casys-ai/pml/core"
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
		return Lock{Version: LockVersion, Servers: map[string]LockEntry{}}, nil
	}
	if err != nil {
		return Lock{}, core.Errorf(core.CodeInvalidConfig, "cannot read %s: %w", file, err)
	}
	return ParseLock(file, raw)
}

// ParseLock reads the bytes of a pml.lock; file is its name for messages. Its
// errors are those of ReadLock.
func ParseLock(file string, raw []byte) (Lock, error) {
	r := lockReader{file: file, raw: raw, dec: json.NewDecoder(bytes.NewReader(raw))}
	l := Lock{Servers: map[string]LockEntry{}}
	switch {
	case len(raw) > maxLock:
		r.fault("", "is larger than 32 MB")
	case !json.Valid(raw):
		var v any
		err := json.Unmarshal(raw, &v)
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			r.at = syntax.Offset - 1
		}
		r.fault("", fmt.Sprintf("is not valid JSON: %v", err))
	default:
		var version int
		if json.Unmarshal(raw, &struct {
			Version *int `json:"version"`
		}{&version}) == nil && version > LockVersion {
			return Lock{}, core.Errorf(core.CodeStoreNewer, "%s has version %d, this pml knows %d; update pml", file, version, LockVersion)
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

// lockReader walks over JSON that is known to be valid, so that each fault can
// have its position.
type lockReader struct {
	file   string
	raw    []byte
	dec    *json.Decoder
	at     int64 // of the value that is being looked at
	faults []core.Fault
}

// fault notes what is wrong at a path; no more than 50 are kept.
func (r *lockReader) fault(path, message string) {
	if len(r.faults) == 50 {
		return
	}
	at := min(max(r.at, 0), int64(len(r.raw)))
	for at < int64(len(r.raw)) && bytes.IndexByte([]byte(" \t\r\n:,"), r.raw[at]) >= 0 {
		at++
	}
	before := r.raw[:at]
	pos := &core.Position{Line: 1 + bytes.Count(before, []byte("\n")), Column: len([]rune(string(before[bytes.LastIndexByte(before, '\n')+1:]))) + 1}
	r.faults = append(r.faults, core.Fault{File: r.file, Path: core.Visible(path, 200, false), At: pos, Message: message})
}

// object calls member for each member of the object that comes next; member
// must read the value.
func (r *lockReader) object(path string, member func(name, path string)) {
	if !r.open(path, '{', "an object") {
		return
	}
	seen := map[string]bool{}
	for r.dec.More() {
		r.at = r.dec.InputOffset()
		token, err := r.dec.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			r.fault(path, "cannot be read")
			return
		}
		sub := path + "/" + strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
		if seen[name] {
			r.fault(sub, "is there twice")
		}
		seen[name] = true
		member(name, sub)
	}
	r.close(path)
}

func (r *lockReader) array(path string, element func(path string)) {
	if !r.open(path, '[', "a list") {
		return
	}
	for i := 0; r.dec.More(); i++ {
		element(fmt.Sprintf("%s/%d", path, i))
	}
	r.close(path)
}

// open takes the opening delimiter of what must come next; anything else is a
// fault and skipped.
func (r *lockReader) open(path string, delim byte, want string) bool {
	if next := r.peek(); next != delim {
		r.skip()
		r.fault(path, "must be "+want)
		return false
	}
	if _, err := r.dec.Token(); err != nil {
		r.fault(path, "cannot be read")
		return false
	}
	return true
}

func (r *lockReader) close(path string) {
	if _, err := r.dec.Token(); err != nil {
		r.fault(path, "cannot be read")
	}
}

// peek returns the first byte of the next value and notes where it is.
func (r *lockReader) peek() byte {
	r.at = r.dec.InputOffset()
	for r.at < int64(len(r.raw)) && bytes.IndexByte([]byte(" \t\r\n:,"), r.raw[r.at]) >= 0 {
		r.at++
	}
	if r.at >= int64(len(r.raw)) {
		return 0
	}
	return r.raw[r.at]
}

// skip reads the next value and returns it.
func (r *lockReader) skip() json.RawMessage {
	at := r.at
	var v json.RawMessage
	if err := r.dec.Decode(&v); err != nil {
		v = nil
	}
	r.at = at
	return v
}

// text reads a string.
func (r *lockReader) text(path string, into *string) {
	r.peek()
	if v := r.skip(); v == nil || v[0] != '"' || json.Unmarshal(v, into) != nil {
		r.fault(path, "must be a string")
	}
}

// digest reads a digest of pml's.
func (r *lockReader) digest(path string, into *string) {
	r.text(path, into)
	if *into != "" && shortDigest(*into, 64) == "invalid" {
		r.fault(path, `must be "sha256:" and 64 hexadecimal digits`)
	}
}

// unknown refuses a member whose name is not known.
func (r *lockReader) unknown(name, path string, known ...string) {
	r.fault(path, fmt.Sprintf("unknown key %q%s", core.Visible(name, 60, false), core.Suggest(name, known)))
	r.peek()
	r.skip()
}

func (r *lockReader) top(l *Lock) {
	r.object("", func(name, path string) {
		switch name {
		case "version":
			r.peek()
			if v := r.skip(); v == nil || json.Unmarshal(v, &l.Version) != nil || l.Version != LockVersion {
				r.fault(path, fmt.Sprintf("must be %d", LockVersion))
			}
		case "servers":
			r.object(path, func(server, path string) { l.Servers[server] = r.entry(path) })
		default:
			r.unknown(name, path, "version", "servers")
		}
	})
	if l.Version == 0 && len(r.faults) == 0 {
		r.at = 0
		r.fault("/version", "is missing")
	}
}

func (r *lockReader) entry(path string) LockEntry {
	var e LockEntry
	start := r.dec.InputOffset()
	r.object(path, func(name, path string) {
		switch name {
		case "package":
			r.text(path, &e.Package)
			if e.Package != "" && !validName(e.Package) {
				r.fault(path, "is not the name of an npm package")
			}
		case "range":
			r.text(path, &e.Range)
		case "version":
			r.text(path, &e.Version)
		case "digest":
			r.digest(path, &e.Digest)
		case "packages":
			r.array(path, func(path string) { e.Packages = append(e.Packages, r.pkg(path)) })
		case "npm":
			if r.peek() != '{' {
				r.fault(path, "must be an object")
			}
			e.NPM = r.skip()
		case "command_digest":
			r.digest(path, &e.CommandDigest)
		case "file_digest":
			r.digest(path, &e.FileDigest)
		case "tools":
			e.Tools = map[string]string{}
			r.object(path, func(tool, path string) {
				var digest string
				r.digest(path, &digest)
				e.Tools[tool] = digest
			})
		default:
			r.unknown(name, path, "package", "range", "version", "digest", "packages", "npm", "command_digest", "file_digest", "tools")
		}
	})
	if e.Package == "" {
		return e
	}
	r.at = start
	switch {
	case e.Digest == "" || e.Version == "":
		r.fault(path, "a package needs its version and digest")
	case !slices.IsSortedFunc(e.Packages, func(a, b Package) int { return strings.Compare(a.line(), b.line()) }) || packagesDigest(e.Packages) != e.Digest:
		r.fault(path, "digest is not that of the packages listed; restore the file from version control, or remove the entry")
	}
	return e
}

func (r *lockReader) pkg(path string) Package {
	var p Package
	r.object(path, func(name, path string) {
		switch name {
		case "name":
			r.text(path, &p.Name)
		case "version":
			r.text(path, &p.Version)
		case "integrity":
			r.text(path, &p.Integrity)
		default:
			r.unknown(name, path, "name", "version", "integrity")
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
	servers := maps.Clone(old.Servers)
	for name, e := range l.Servers {
		if e.empty() {
			delete(servers, name)
			continue
		}
		servers[name] = e
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	// Ranges such as >=1 stay readable.
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(Lock{Version: LockVersion, Servers: servers}); err != nil {
		return core.Errorf(core.CodeInternal, "cannot encode pml.lock: %w", err)
	}
	if err := f(b.Bytes()); err != nil {
		return err
	}
	// It is committed and read by others: not 0600.
	return replaceFile(file, b.Bytes(), 0o644)
}

func (e LockEntry) empty() bool {
	return e.Package == "" && e.Digest == "" && e.CommandDigest == "" && e.FileDigest == "" && e.Tools == nil && len(e.NPM) == 0
}
