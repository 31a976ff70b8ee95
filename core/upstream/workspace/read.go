package workspace

import (
	"bytes"
	"cmp"
	"io"
	"io/fs"
	"time"
	"unicode/utf8"

	"github.com/casys-ai/pml/core"
)

const (
	// maxRead bounds what one read_file returns.
	maxRead = 1 << 20
	// maxEntries bounds what one list_directory returns.
	maxEntries = 5000
)

type readArgs struct {
	Path   string `json:"path"`
	Offset int64  `json:"offset"`
	Limit  int64  `json:"limit"`
}

type readResult struct {
	Path       string `json:"path"`
	Content    string `json:"content"`
	Size       int64  `json:"size"`
	Truncated  bool   `json:"truncated"`
	NextOffset int64  `json:"next_offset,omitempty"`
}

func (c *call) readFile(a readArgs) (any, error) {
	if a.Offset < 0 || a.Limit < 0 {
		return nil, core.Errorf(core.CodeInvalidArguments, "offset and limit must not be negative")
	}
	if a.Limit == 0 || a.Limit > maxRead {
		a.Limit = maxRead
	}
	real, err := c.toRead(a.Path)
	if err != nil {
		return nil, err
	}
	f, info, err := c.open(a.Path, real)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.NewSectionReader(f, a.Offset, a.Limit))
	if err != nil {
		return nil, failed("read", a.Path, err)
	}
	end := a.Offset + int64(len(data))
	truncated := end < info.Size()
	if truncated {
		data = wholeRunes(data)
		end = a.Offset + int64(len(data))
	}
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 || truncated && len(data) == 0 {
		return nil, refused("cannot read %q: it is not text in UTF-8, or the offset is inside a character", a.Path)
	}
	out := readResult{Path: real, Content: string(data), Size: info.Size(), Truncated: truncated}
	if truncated {
		out.NextOffset = end
	}
	return out, nil
}

// wholeRunes cuts a character off that the end of the data has split.
func wholeRunes(data []byte) []byte {
	for i := 1; i <= utf8.UTFMax && i <= len(data); i++ {
		tail := data[len(data)-i:]
		if utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return data[:len(data)-i]
			}
			return data
		}
	}
	return data
}

type pathArgs struct {
	Path string `json:"path"`
}

type entry struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Size *int64 `json:"size,omitempty"`
}

type listResult struct {
	Path      string  `json:"path"`
	Entries   []entry `json:"entries"`
	Truncated bool    `json:"truncated"`
}

func (c *call) listDirectory(a pathArgs) (any, error) {
	real, err := c.toRead(orDot(a.Path))
	if err != nil {
		return nil, err
	}
	list, err := fs.ReadDir(c.root.FS(), real)
	if err != nil {
		return nil, failed("list", a.Path, err)
	}
	out := listResult{Path: real, Entries: []entry{}, Truncated: len(list) > maxEntries}
	for _, d := range list[:min(len(list), maxEntries)] {
		if err := c.ctx.Err(); err != nil {
			return nil, err
		}
		e := entry{Name: d.Name(), Type: kind(d.Type())}
		if info, err := d.Info(); err == nil && d.Type().IsRegular() && !secret(d.Name()) {
			size := info.Size()
			e.Size = &size
		}
		out.Entries = append(out.Entries, e)
	}
	return out, nil
}

func orDot(p string) string {
	if p == "" {
		return "."
	}
	return p
}

func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "directory"
	case m&fs.ModeSymlink != 0:
		return "symlink"
	case m.IsRegular():
		return "file"
	}
	return "other"
}

type statResult struct {
	Path     string `json:"path"`
	Exists   bool   `json:"exists"`
	Type     string `json:"type,omitempty"`
	Size     int64  `json:"size,omitempty"`
	Mode     string `json:"mode,omitempty"`
	Modified string `json:"modified,omitempty"`
}

func (c *call) stat(a pathArgs) (any, error) {
	real, err := c.toRead(a.Path)
	if err != nil {
		return nil, err
	}
	dir, name, err := c.folder(real, false)
	var info fs.FileInfo
	if err == nil {
		info, err = dir.Lstat(cmp.Or(name, "."))
	}
	if err != nil {
		if notThere(err) {
			return statResult{Path: real}, nil
		}
		return nil, failed("look at", a.Path, err)
	}
	return statResult{
		Path: real, Exists: true, Type: kind(info.Mode()), Size: info.Size(), Mode: info.Mode().String(),
		Modified: info.ModTime().UTC().Format(time.RFC3339Nano),
	}, nil
}
