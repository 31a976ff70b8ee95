package workspace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/casys-ai/pml/core"
)

const (
	// maxEdited bounds a file that is edited or written.
	maxEdited = 16 << 20
	newMode   = 0o644
)

type writeArgs struct {
	Path       string `json:"path"`
	Content    string `json:"content"`
	CreateOnly bool   `json:"create_only"`
}

type writeResult struct {
	Path    string `json:"path"`
	Bytes   int    `json:"bytes"`
	Created bool   `json:"created"`
}

func notThere(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

func (c *call) writeFile(a writeArgs) (any, error) {
	if len(a.Content) > maxEdited {
		return nil, core.Errorf(core.CodeInvalidArguments, "content is longer than %d bytes", maxEdited)
	}
	c.server.writing.Lock()
	defer c.server.writing.Unlock()
	real, err := c.toWrite(a.Path, true)
	if err != nil {
		return nil, err
	}
	if err := c.ctx.Err(); err != nil {
		return nil, err
	}
	dir, name, err := c.folder(real, true)
	if err != nil {
		return nil, failed("create the folder of", a.Path, err)
	}
	out := writeResult{Path: real, Bytes: len(a.Content)}
	if a.CreateOnly {
		out.Created = true
		return out, create(dir, a.Path, name, a.Content)
	}
	mode := fs.FileMode(newMode)
	info, err := dir.Lstat(name)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return nil, refused("cannot write %q: it is not a regular file", a.Path)
	case err == nil:
		if err := c.notSecret(a.Path, info); err != nil {
			return nil, err
		}
		mode = info.Mode().Perm()
	case notThere(err):
		out.Created = true
	default:
		return nil, failed("write", a.Path, err)
	}
	return out, c.replace(dir, a.Path, name, a.Content, mode, out.Created)
}

// create writes a file that must not exist yet.
func create(dir *os.Root, p, name, content string) error {
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, newMode)
	if errors.Is(err, fs.ErrExist) {
		return refused("cannot create %q: it exists already", p)
	}
	if err != nil {
		return failed("create", p, err)
	}
	if err := fill(f, content); err != nil {
		_ = dir.Remove(name)
		return failed("create", p, err)
	}
	return nil
}

// replace writes a file beside the old one and renames it: readers see the old
// content or the new one, and a crash leaves one of them. A new file gets the
// mode that the user's mask leaves, an old one keeps its own.
func (c *call) replace(dir *os.Root, p, name, content string, mode fs.FileMode, created bool) error {
	temp, f, err := c.temp(dir, mode)
	if err != nil {
		return failed("write", p, err)
	}
	if !created {
		err = f.Chmod(mode)
	}
	if fillErr := fill(f, content); err == nil {
		err = fillErr
	}
	if err == nil {
		err = dir.Rename(temp, name)
	}
	if err != nil {
		_ = dir.Remove(temp)
		return failed("write", p, err)
	}
	return nil
}

// temp creates a file of a name that nothing else has.
func (c *call) temp(dir *os.Root, mode fs.FileMode) (string, *os.File, error) {
	for {
		name := fmt.Sprintf(".pml-%d-%d.tmp", os.Getpid(), c.server.temps.Add(1))
		f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if !errors.Is(err, fs.ErrExist) {
			return name, f, err
		}
	}
}

// fill writes, syncs and closes a file.
func fill(f *os.File, content string) error {
	_, err := f.WriteString(content)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

type editArgs struct {
	Path string `json:"path"`
	Old  string `json:"old"`
	New  string `json:"new"`
	All  bool   `json:"all"`
}

type editResult struct {
	Path         string `json:"path"`
	Replacements int    `json:"replacements"`
}

func (c *call) editFile(a editArgs) (any, error) {
	if a.Old == "" || a.Old == a.New {
		return nil, core.Errorf(core.CodeInvalidArguments, "old must not be empty and must differ from new")
	}
	c.server.writing.Lock()
	defer c.server.writing.Unlock()
	real, err := c.toWrite(a.Path, true)
	if err != nil {
		return nil, err
	}
	f, info, err := c.open(a.Path, real)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxEdited+1))
	_ = f.Close()
	if err != nil {
		return nil, failed("read", a.Path, err)
	}
	if len(data) > maxEdited {
		return nil, refused("cannot edit %q: it is longer than %d bytes", a.Path, maxEdited)
	}
	text := string(data)
	n := strings.Count(text, a.Old)
	switch {
	case n == 0:
		return nil, refused("cannot edit %q: the text to replace does not occur in it", a.Path)
	case n > 1 && !a.All:
		return nil, refused("cannot edit %q: the text to replace occurs %d times; give more of it, or set all", a.Path, n)
	case len(text)+n*(len(a.New)-len(a.Old)) > maxEdited:
		return nil, refused("cannot edit %q: it would be longer than %d bytes", a.Path, maxEdited)
	}
	if err := c.ctx.Err(); err != nil {
		return nil, err
	}
	dir, name, err := c.folder(real, false)
	if err != nil {
		return nil, failed("write", a.Path, err)
	}
	text = strings.ReplaceAll(text, a.Old, a.New)
	return editResult{Path: real, Replacements: n}, c.replace(dir, a.Path, name, text, info.Mode().Perm(), false)
}

type moveArgs struct {
	From string `json:"from"`
	To   string `json:"to"`
}

type moveResult struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// moveFile renames a regular file. Folders and links are left alone: moving
// them changes what other paths mean.
func (c *call) moveFile(a moveArgs) (any, error) {
	c.server.writing.Lock()
	defer c.server.writing.Unlock()
	from, err := c.toWrite(a.From, false)
	if err != nil {
		return nil, err
	}
	to, err := c.toWrite(a.To, false)
	if err != nil {
		return nil, err
	}
	if err := c.move(a, from, to); err != nil {
		return nil, err
	}
	return moveResult{From: from, To: to}, nil
}

func (c *call) move(a moveArgs, from, to string) error {
	dir, name, err := c.folder(from, false)
	if err != nil {
		return failed("move", a.From, err)
	}
	info, err := dir.Lstat(name)
	if err != nil {
		return failed("move", a.From, err)
	}
	if !info.Mode().IsRegular() {
		return refused("cannot move %q: it is not a regular file", a.From)
	}
	if err := c.notSecret(a.From, info); err != nil {
		return err
	}
	old, err := dir.OpenRoot(".") // stays open while the other folder is
	if err != nil {
		return failed("move", a.From, err)
	}
	defer func() { _ = old.Close() }()
	dir, target, err := c.folder(to, true)
	if err != nil {
		return failed("create the folder of", a.To, err)
	}
	if there, err := dir.Lstat(target); err == nil {
		if err := c.notSecret(a.To, there); err != nil {
			return err
		}
		return refused("cannot move %q to %q: that exists already", a.From, a.To)
	}
	if path.Dir(from) == path.Dir(to) {
		err = old.Rename(name, target)
	} else {
		err = c.carry(old, name, info, dir, target)
	}
	if err != nil {
		return failed("move", a.From, err)
	}
	return nil
}

// carry moves a file into another folder. There is no way to rename from one
// open folder into another that all systems have, so its content is copied, and
// the old name removed once the new one is there: a crash leaves both.
func (c *call) carry(old *os.Root, name string, info fs.FileInfo, dir *os.Root, target string) error {
	from, err := old.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	if now, err := from.Stat(); err != nil || !os.SameFile(info, now) {
		return errors.Join(errSwapped, err)
	}
	temp, f, err := c.temp(dir, info.Mode().Perm())
	if err != nil {
		return err
	}
	if _, err = io.Copy(f, from); err == nil {
		err = f.Chmod(info.Mode().Perm())
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = dir.Chtimes(temp, info.ModTime(), info.ModTime())
	}
	if err == nil {
		err = dir.Rename(temp, target)
	}
	if err != nil {
		_ = dir.Remove(temp)
		return err
	}
	return old.Remove(name)
}

type deleteResult struct {
	Path string `json:"path"`
}

// deleteFile removes a file or a link, never a folder.
func (c *call) deleteFile(a pathArgs) (any, error) {
	c.server.writing.Lock()
	defer c.server.writing.Unlock()
	real, err := c.toWrite(a.Path, false)
	if err != nil {
		return nil, err
	}
	dir, name, err := c.folder(real, false)
	if err != nil {
		return nil, failed("delete", a.Path, err)
	}
	info, err := dir.Lstat(name)
	if err != nil {
		return nil, failed("delete", a.Path, err)
	}
	if info.IsDir() {
		return nil, refused("cannot delete %q: it is a folder", a.Path)
	}
	if err := c.notSecret(a.Path, info); err != nil {
		return nil, err
	}
	if err := dir.Remove(name); err != nil {
		return nil, failed("delete", a.Path, err)
	}
	return deleteResult{Path: real}, nil
}
