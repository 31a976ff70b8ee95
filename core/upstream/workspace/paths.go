package workspace

import (
	"cmp"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/casys-ai/pml/core"
)

// maxLinks bounds the symbolic links of one path.
const maxLinks = 40

// fold maps a name to what the most forgiving file systems take it for: case,
// invisible marks, and dots and spaces at the end do not count.
func fold(name string) string {
	var b strings.Builder
	for _, r := range name {
		if core.Hidden(r) {
			continue
		}
		low := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			low = min(low, f)
		}
		b.WriteRune(unicode.ToLower(low))
	}
	return strings.TrimRight(b.String(), ". ")
}

// secret reports whether a path has a component whose content is never shown.
func secret(p string) bool {
	for part := range strings.SplitSeq(p, "/") {
		if strings.HasPrefix(fold(part), ".env") {
			return true
		}
	}
	return false
}

// guarded reports whether a path has a component that is never written.
func guarded(p string) bool {
	for part := range strings.SplitSeq(p, "/") {
		f := fold(part)
		switch {
		case strings.HasPrefix(f, ".env"), f == ".pml.json", f == "pml.lock", f == ".pml", f == ".git":
			return true
		case shortName(f):
			return true
		}
	}
	return false
}

// shortName reports whether a name may be the short form that Windows gives
// to another one (ENV~1): it would get around every rule about names.
func shortName(name string) bool {
	i := strings.LastIndexByte(name, '~')
	if filepath.Separator != '\\' || i < 0 || i+1 >= len(name) {
		return false
	}
	return name[i+1] >= '0' && name[i+1] <= '9'
}

// clean checks the form of a path and returns it with slashes, "." for the
// workspace itself.
func clean(p string) (string, error) {
	slashed := filepath.ToSlash(p)
	switch {
	case p == "":
		return "", core.Errorf(core.CodeInvalidArguments, "the path is empty")
	case strings.ContainsRune(p, 0) || !utf8.ValidString(p):
		return "", core.Errorf(core.CodeInvalidArguments, "the path is not valid text")
	case path.IsAbs(slashed) || filepath.IsAbs(p) || filepath.VolumeName(p) != "":
		return "", refused("%q is refused: give a path relative to the workspace", p)
	}
	c := path.Clean(slashed)
	if c == ".." || strings.HasPrefix(c, "../") {
		return "", refused("%q is refused: it leads out of the workspace", p)
	}
	if filepath.Separator == '\\' && strings.ContainsRune(c, ':') {
		return "", refused("%q is refused: a colon names a hidden stream of a file", p)
	}
	return c, nil
}

// resolve follows the symbolic links of a cleaned path and returns the real
// path inside the workspace. What does not exist stays as it is named. With
// last false a link at the end is not followed.
func (c *call) resolve(p string, last bool) (string, error) {
	if p == "." {
		return p, nil
	}
	todo := strings.Split(p, "/")
	done, links := ".", 0
	for len(todo) > 0 {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			if done == "." {
				return "", refused("%q is refused: it leads out of the workspace", p)
			}
			done = path.Dir(done)
			continue
		}
		next := path.Join(done, part)
		info, err := c.root.Lstat(next)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 || len(todo) == 0 && !last {
			done = next // if it is missing, opening it says so
			continue
		}
		target, err := c.root.Readlink(next)
		if err != nil {
			return "", failed("follow", p, err)
		}
		target = filepath.ToSlash(target)
		if path.IsAbs(target) || filepath.VolumeName(target) != "" {
			return "", refused("%q is refused: the link %q leads to an absolute path", p, next)
		}
		if links++; links > maxLinks {
			return "", refused("%q is refused: too many symbolic links", p)
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	return done, nil
}

// toRead returns the real path of what may be read.
func (c *call) toRead(p string) (string, error) {
	cleaned, err := clean(p)
	if err != nil {
		return "", err
	}
	real, err := c.resolve(cleaned, true)
	if err != nil {
		return "", err
	}
	if secret(cleaned) || secret(real) || shortName(fold(path.Base(real))) {
		return "", refused("%q is refused: .env files hold keys and are never read", p)
	}
	return real, nil
}

// toWrite returns the real path of what may be written. With last false a link
// at the end is itself what is meant.
func (c *call) toWrite(p string, last bool) (string, error) {
	cleaned, err := clean(p)
	if err != nil {
		return "", err
	}
	real, err := c.resolve(cleaned, last)
	if err != nil {
		return "", err
	}
	if real == "." {
		return "", refused("%q is refused: it is the workspace folder itself", p)
	}
	if guarded(cleaned) || guarded(real) {
		return "", refused("%q is refused: .pml.json, pml.lock, .pml, .git and .env files are never changed", p)
	}
	if real != cleaned && executed(real) {
		return "", refused("%q is refused: it leads to %q by a link, and that is executed by other programs; name it by its own path", p, real)
	}
	return real, nil
}

// open opens a regular file for reading and makes sure that it is the one that
// the checked path names.
func (c *call) open(p, real string) (*os.File, fs.FileInfo, error) {
	dir, name, err := c.folder(real, false)
	if err != nil {
		return nil, nil, failed("read", p, err)
	}
	name = cmp.Or(name, ".")
	// Asked before opening: opening a pipe would wait for its other end.
	named, err := dir.Lstat(name)
	if err != nil {
		return nil, nil, failed("read", p, err)
	}
	if named.IsDir() {
		return nil, nil, refused("cannot read %q: it is a folder", p)
	}
	if !named.Mode().IsRegular() {
		return nil, nil, refused("cannot read %q: it is not a regular file", p)
	}
	f, err := dir.Open(name)
	if err != nil {
		return nil, nil, failed("read", p, err)
	}
	info, err := f.Stat()
	if err == nil && !os.SameFile(named, info) {
		err = refused("cannot read %q: it was replaced at this moment", p)
	}
	if err == nil {
		var linked bool
		if linked, err = c.linkedSecret(info); linked {
			err = refused("%q is refused: it is another name of a .env file, or the workspace is too large to tell; those hold keys and are never read", p)
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}
