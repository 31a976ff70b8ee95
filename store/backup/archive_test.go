package backup_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store/backup"
)

var files = map[string]string{
	"pending/pending.db":      strings.Repeat("page", 3000),
	"pending/blobs/r1/abc":    "a large value",
	"pending/blobs/r2/abc":    "",
	"server/server.db":        "another",
	"server/server.blobs/r/x": "y",
}

func write(t *testing.T, files map[string]string) []byte {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if _, err := backup.Write(&b, backup.Manifest{CreatedAt: time.Unix(1, 0), Pml: "1.2.3", Stores: []string{"pending", "server"}}, dir); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestArchive(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m, err := backup.Read(bytes.NewReader(write(t, files)), dir)
	if err != nil || m.Version != backup.Version || m.Pml != "1.2.3" || len(m.Files) != len(files) {
		t.Fatalf("%+v, %v", m, err)
	}
	got := map[string]string{}
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		got[filepath.ToSlash(rel)] = string(raw)
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", rel, info.Mode(), err)
		}
		return err
	})
	if diff := cmp.Diff(files, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestArchive_Cut: an archive that ends too early is none, wherever it was cut.
func TestArchive_Cut(t *testing.T) {
	t.Parallel()
	raw := write(t, files)
	manifest := bytes.LastIndex(raw, []byte(`"files"`))
	for at := 0; at < manifest; at += 1009 {
		if _, err := backup.Read(bytes.NewReader(raw[:at]), t.TempDir()); core.CodeOf(err) != core.CodeInvalidArguments {
			t.Fatalf("cut at %d of %d: %v", at, len(raw), err)
		}
	}
}

// archive makes a tar file of entries, the last of which may be a manifest.
func archive(t *testing.T, entries ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		body := h.Linkname
		h.Size, h.Mode = int64(len(body)), 0o600
		if h.Typeflag == 0 {
			h.Typeflag, h.Linkname = tar.TypeReg, ""
		} else {
			h.Size = 0
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := w.Write([]byte(body)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestArchive_Refused: what is no backup of pml, or none that it was, is refused.
func TestArchive_Refused(t *testing.T) {
	t.Parallel()
	manifest := func(version int, files ...backup.File) tar.Header {
		raw, err := json.Marshal(backup.Manifest{Format: "pml-backup", Version: version, Stores: []string{}, Files: files})
		if err != nil {
			t.Fatal(err)
		}
		return tar.Header{Name: "manifest.json", Linkname: string(raw)} // the text, see archive
	}
	entry := func(name string) tar.Header { return tar.Header{Name: name, Linkname: "x"} }
	x := backup.File{Path: "pending/pending.db", Size: 1, SHA256: "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"}
	tampered := bytes.Replace(write(t, files), []byte("a large value"), []byte("a LARGE value"), 1)
	for name, c := range map[string]struct {
		raw  []byte
		code core.Code
		says string
	}{
		"Good":          {raw: archive(t, entry(x.Path), manifest(1, x))},
		"Tampered":      {tampered, core.CodeInvalidArguments, "is not what its manifest says"},
		"Outside":       {archive(t, entry("../evil"), manifest(1)), core.CodeInvalidArguments, "no backup of pml has"},
		"Deep":          {archive(t, entry("pending/../../../evil"), manifest(1)), core.CodeInvalidArguments, "no backup of pml has"},
		"Absolute":      {archive(t, entry("/etc/evil"), manifest(1)), core.CodeInvalidArguments, "no backup of pml has"},
		"Hidden":        {archive(t, entry("pending/.x"), manifest(1)), core.CodeInvalidArguments, "no backup of pml has"},
		"Link":          {archive(t, tar.Header{Typeflag: tar.TypeSymlink, Name: "pending/a", Linkname: "/etc"}, manifest(1)), core.CodeInvalidArguments, "no backup of pml has"},
		"Twice":         {archive(t, entry(x.Path), entry(x.Path), manifest(1, x, x)), core.CodeInvalidArguments, "twice"},
		"NotNamed":      {archive(t, entry(x.Path), manifest(1)), core.CodeInvalidArguments, "1 files and its manifest names 0"},
		"Missing":       {archive(t, manifest(1, x)), core.CodeInvalidArguments, "0 files and its manifest names 1"},
		"AfterManifest": {archive(t, manifest(1), entry(x.Path)), core.CodeInvalidArguments, "follows its manifest"},
		"NoManifest":    {archive(t, entry(x.Path)), core.CodeInvalidArguments, "has no manifest"},
		"Newer":         {archive(t, manifest(2)), core.CodeStoreNewer, "update pml"},
		"Text":          {[]byte(strings.Repeat("no archive", 100)), core.CodeInvalidArguments, "no tar archive"},
	} {
		dir := t.TempDir()
		_, err := backup.Read(bytes.NewReader(c.raw), filepath.Join(dir, "in"))
		if core.CodeOf(err) != c.code || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 1 {
			t.Errorf("%s: wrote outside: %v, %v", name, left, err)
		}
	}
}

// FuzzRead: any bytes are read or refused, and nothing is written outside the folder.
func FuzzRead(f *testing.F) {
	f.Add([]byte("no archive"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		dir := t.TempDir()
		_, _ = backup.Read(bytes.NewReader(raw), filepath.Join(dir, "in"))
		if left, err := os.ReadDir(dir); err != nil || len(left) > 1 {
			t.Errorf("wrote outside: %v, %v", left, err)
		}
	})
}
