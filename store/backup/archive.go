// Package backup is the file format of backups: a tar archive of the database files
// and large values of one or two stores, with a manifest as its last entry.
//
// Entries lie under the name of their store: pending/pending.db,
// pending/blobs/<run>/<sha256>. The manifest says the version of the format, and
// size and hash of every file; an archive without one was cut off.
package backup

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
)

// Version is the format that this package writes. It reads that one and older ones.
const Version = 1

const (
	format       = "pml-backup"
	manifestName = "manifest.json"
	maxManifest  = 256 << 20
)

// Manifest says what an archive holds.
type Manifest struct {
	Format    string    `json:"format"`
	Version   int       `json:"version"`
	CreatedAt time.Time `json:"created_at"`
	Pml       string    `json:"pml"` // the version of pml that wrote it
	// Stores are the names of the stores, each of which is a folder.
	Stores []string `json:"stores"`
	Files  []File   `json:"files"`
}

// File is one entry.
type File struct {
	Path   string `json:"path"` // with slashes
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Write writes all files under a folder, and the manifest that it completes.
func Write(w io.Writer, m Manifest, dir string) (Manifest, error) {
	m.Format, m.Version, m.Files = format, Version, []File{}
	t := tar.NewWriter(w)
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		f, err := add(t, name, filepath.ToSlash(rel), m.CreatedAt)
		m.Files = append(m.Files, f)
		return err
	})
	if err != nil {
		return m, err
	}
	raw, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return m, err
	}
	if err := t.WriteHeader(header(manifestName, int64(len(raw)), m.CreatedAt)); err != nil {
		return m, err
	}
	if _, err := t.Write(raw); err != nil {
		return m, err
	}
	return m, t.Close()
}

func header(name string, size int64, at time.Time) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600, ModTime: at, Format: tar.FormatPAX}
}

func add(t *tar.Writer, name, as string, at time.Time) (File, error) {
	f, err := os.Open(name)
	if err != nil {
		return File{}, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return File{}, err
	}
	if err := t.WriteHeader(header(as, info.Size(), at)); err != nil {
		return File{}, err
	}
	hash := sha256.New()
	if _, err := io.Copy(io.MultiWriter(t, hash), f); err != nil {
		return File{}, err
	}
	return File{Path: as, Size: info.Size(), SHA256: hex.EncodeToString(hash.Sum(nil))}, nil
}

// entryName is what an entry may be called: nothing leads out of the folder.
var entryName = regexp.MustCompile(`^[a-z]+(/[A-Za-z0-9_-][A-Za-z0-9._-]*){1,3}$`)

// Read unpacks an archive into an empty folder and verifies it: names, sizes, hashes,
// and that it is complete. Every file is durable when Read returns.
func Read(r io.Reader, dir string) (Manifest, error) {
	t := tar.NewReader(r)
	var got []File
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return Manifest{}, refused("it has no manifest: it was cut off, or is no backup of pml")
		}
		if err != nil {
			return Manifest{}, refused("it is no tar archive, or was cut off: %w", err)
		}
		if h.Name == manifestName {
			return readManifest(t, got)
		}
		if h.Typeflag != tar.TypeReg || !entryName.MatchString(h.Name) {
			return Manifest{}, refused("it has an entry %q, which no backup of pml has", core.Visible(h.Name, 100, false))
		}
		f, err := unpack(t, filepath.Join(dir, filepath.FromSlash(h.Name)))
		if err != nil {
			return Manifest{}, err
		}
		f.Path = h.Name
		got = append(got, f)
	}
}

func refused(text string, args ...any) error {
	return core.Errorf(core.CodeInvalidArguments, "the backup cannot be used: "+text+"; nothing was changed", args...)
}

func unpack(r io.Reader, name string) (File, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return File{}, err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return File{}, refused("it has %q twice", path.Base(name))
	}
	if err != nil {
		return File{}, err
	}
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, hash), r)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = refused("it was cut off")
	}
	if err == nil {
		err = f.Sync()
	}
	return File{Size: n, SHA256: hex.EncodeToString(hash.Sum(nil))}, errors.Join(err, f.Close())
}

// readManifest reads the manifest, which is the last entry, and compares.
func readManifest(t *tar.Reader, got []File) (m Manifest, err error) {
	raw, err := io.ReadAll(io.LimitReader(t, maxManifest))
	if err != nil {
		return m, refused("its manifest was cut off: %w", err)
	}
	if err := json.NewDecoder(bytes.NewReader(raw)).Decode(&m); err != nil || m.Format != format {
		return m, refused("its manifest is none of a backup of pml")
	}
	if m.Version > Version {
		return m, core.Errorf(core.CodeStoreNewer, "the backup has format %d and this pml knows formats up to %d: it was written by pml %s; update pml",
			m.Version, Version, core.Visible(m.Pml, 40, false)).WithNext("pml", "version")
	}
	if _, err := t.Next(); !errors.Is(err, io.EOF) {
		return m, refused("something follows its manifest")
	}
	byPath := func(a, b File) int { return bytes.Compare([]byte(a.Path), []byte(b.Path)) }
	want := slices.SortedFunc(slices.Values(m.Files), byPath)
	slices.SortFunc(got, byPath)
	if len(got) != len(want) {
		return m, refused("it has %d files and its manifest names %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			return m, refused("%s is not what its manifest says", core.Visible(got[i].Path, 100, false))
		}
	}
	for _, name := range m.Stores {
		if !slices.ContainsFunc(got, func(f File) bool { return f.Path == fmt.Sprintf("%s/%s.db", name, name) }) {
			return m, refused("its store %q has no database", core.Visible(name, 40, false))
		}
	}
	return m, nil
}
