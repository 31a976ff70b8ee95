package workspace

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/casys-ai/pml/core"
)

// maxPeek bounds a file that is compared with what a call would make of it.
const maxPeek = 1 << 20

// Peek reads a text file of the workspace folder dir for a comparison, behind the
// fences of read_file: nothing outside of the folder, no .env file, no link that is
// swapped in. The path may be absolute if it leads into the folder. text is nil of a
// file that does not exist; an error says why it cannot be compared.
func Peek(dir, path string) (text *string, err error) {
	if filepath.IsAbs(path) {
		if path, err = filepath.Rel(dir, path); err != nil {
			return nil, refused("it is outside of the workspace")
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, refused("the workspace folder cannot be opened")
	}
	defer func() { _ = root.Close() }()
	c := &call{ctx: context.Background(), root: root, server: New()}
	defer c.close()
	real, err := c.toRead(path)
	if err != nil {
		return nil, err
	}
	if _, err := c.root.Lstat(real); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	f, _, err := c.open(path, real)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxPeek+1))
	switch {
	case err != nil:
		return nil, failed("read", path, err)
	case len(data) > maxPeek:
		return nil, refused("it is longer than %d bytes", maxPeek)
	case !utf8.Valid(data):
		return nil, core.Errorf(core.CodeToolFailed, "it is no text")
	}
	s := string(data)
	return &s, nil
}
