package install

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/atomicfile"
	"github.com/casys-ai/pml/core/launch"
)

// Files that pml keeps in the root of an installed tree. They, and npm's own
// locks, are not part of its hash.
const (
	receiptFile  = "pml-receipt.json"
	manifestFile = "pml-manifest.txt"
	statFile     = "pml-stat.txt"
)

var notHashed = []string{receiptFile, manifestFile, statFile, "package-lock.json", "node_modules/.package-lock.json"}

// treeFile is one file of a tree, by its slash path.
type treeFile struct {
	path string
	info fs.FileInfo
}

// listTree returns the files and links of a tree, sorted by path.
func listTree(root string) ([]treeFile, error) {
	var files []treeFile
	var walk func(dir, rel string) error
	walk = func(dir, rel string) error {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			path := rel + e.Name()
			if e.IsDir() {
				if err := walk(dir+string(filepath.Separator)+e.Name(), path+"/"); err != nil {
					return err
				}
				continue
			}
			if strings.Count(path, "/") <= 1 && (slices.Contains(notHashed, path) || path == e.Name() && atomicfile.Leftover(path)) {
				continue
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			files = append(files, treeFile{path, info})
		}
		return nil
	}
	if err := walk(root, ""); err != nil {
		return nil, err
	}
	slices.SortFunc(files, func(a, b treeFile) int { return strings.Compare(a.path, b.path) })
	return files, nil
}

// statPrint is a fingerprint of what the file system says about the files. As
// long as it stays the same nothing was written to them.
func statPrint(files []treeFile) string {
	h := sha256.New()
	var line []byte
	for _, f := range files {
		line = fmt.Appendf(line[:0], "%s\x00%d %d %o ", f.path, f.info.Size(), f.info.ModTime().UnixNano(), f.info.Mode())
		line = launch.AppendInode(line, f.info)
		h.Write(append(line, '\n'))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// hashTree returns the manifest of the files, one line each: the SHA-256 of
// the content, whether it can be executed, the path. durable also makes each file
// durable, as it is open anyway.
func (in *Installer) hashTree(root string, files []treeFile, durable bool) ([]byte, error) {
	lines := make([]string, len(files))
	errs := make([]error, len(files))
	next := make(chan int)
	var workers sync.WaitGroup
	for range max(4, runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for i := range next {
				lines[i], errs[i] = in.hashFile(root, files[i], durable)
			}
		})
	}
	for i := range files {
		next <- i
	}
	close(next)
	workers.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return []byte(strings.Join(lines, "")), nil
}

func (in *Installer) hashFile(root string, f treeFile, durable bool) (line string, err error) {
	defer core.Recover(in.o.Logger, "the installed files were read", func(e *core.Error) { line, err = "", e }, "file", f.path)
	h := sha256.New()
	kind := "file"
	name := filepath.Join(root, filepath.FromSlash(f.path))
	switch mode := f.info.Mode(); {
	case mode&fs.ModeSymlink != 0:
		target, err := os.Readlink(name)
		if err != nil {
			return "", err
		}
		kind = "link"
		h.Write([]byte(filepath.ToSlash(target)))
	case !mode.IsRegular():
		kind = "other"
	default:
		if mode&0o111 != 0 {
			kind = "exec"
		}
		file, err := os.Open(name)
		if err != nil {
			return "", err
		}
		_, err = io.Copy(h, file)
		if err == nil && durable {
			err = file.Sync()
		}
		if err := errors.Join(err, file.Close()); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%x %s %q\n", h.Sum(nil), kind, f.path), nil
}

func manifestHash(manifest []byte) string {
	sum := sha256.Sum256(manifest)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// compareManifests says which files differ.
func compareManifests(old, now []byte) []string {
	before, after := manifestMap(old), manifestMap(now)
	var out []string
	for path, what := range after {
		was, ok := before[path]
		switch {
		case !ok:
			out = append(out, "added: "+path)
		case was != what:
			out = append(out, "changed: "+path)
		}
	}
	for path := range before {
		if _, ok := after[path]; !ok {
			out = append(out, "removed: "+path)
		}
	}
	slices.Sort(out)
	return out
}

// manifestMap maps the quoted path of each file to its hash and kind.
func manifestMap(manifest []byte) map[string]string {
	out := map[string]string{}
	for line := range bytes.Lines(manifest) {
		hash, rest, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		kind, path, _ := strings.Cut(rest, " ")
		out[strings.Trim(path, `"`)] = hash + " " + kind
	}
	return out
}
