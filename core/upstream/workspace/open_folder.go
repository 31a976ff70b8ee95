package workspace

import (
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// folder opens the folder of a real path and returns it with the name in it.
// Each step is taken from the folder before it and looked at: a link is not
// followed, and what is opened must be what was looked at. So what is then done
// to the name is done in the folder whose name was checked, whatever is put in
// the place of one of its parts meanwhile. With create, missing folders are made.
//
// The folder belongs to the call, which keeps the last one open: a search opens
// each folder once. The next use of folder may close it.
func (c *call) folder(real string, create bool) (*os.Root, string, error) {
	dir, name := path.Split(real)
	dir = path.Clean(dir)
	if dir == "." || real == "." {
		return c.root, name, nil
	}
	if c.at != nil && c.atPath == dir {
		return c.at, name, nil
	}
	at := c.root
	for step := range strings.SplitSeq(dir, "/") {
		next, err := stepInto(at, step, create)
		if at != c.root {
			_ = at.Close()
		}
		if err != nil {
			return nil, "", err
		}
		at = next
	}
	c.close()
	c.at, c.atPath = at, dir
	return at, name, nil
}

// close closes the folder that a call keeps.
func (c *call) close() {
	if c.at != nil {
		_ = c.at.Close()
		c.at = nil
	}
}

// stepInto opens a folder within a folder, not through a link.
func stepInto(at *os.Root, name string, create bool) (*os.Root, error) {
	info, err := at.Lstat(name)
	if create && notThere(err) {
		// That another call makes it at this moment is as good.
		if err = at.Mkdir(name, 0o755); err == nil || os.IsExist(err) {
			info, err = at.Lstat(name)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, errSwapped
	case !info.IsDir():
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOTDIR}
	}
	next, err := at.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	opened, err := next.Stat(".")
	if err == nil && !os.SameFile(info, opened) {
		err = errSwapped
	}
	if err != nil {
		_ = next.Close()
		return nil, err
	}
	return next, nil
}
