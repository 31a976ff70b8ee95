package bolt

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/casys-ai/pml/core"
)

// FuzzDecodeRow: a row of any bytes is an error or a row, never a panic; and
// what was decoded encodes to something that decodes to the same.
func FuzzDecodeRow(f *testing.F) {
	good, err := encodeRow(core.Record{Seq: 1, Kind: core.RecordSettled},
		part{data: []byte(`{}`)}, part{}, part{blob: &blobRef{size: 5000}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add([]byte{2, '{', '}', 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, parts, err := decodeRecord(raw)
		if err != nil {
			return
		}
		again, err := encodeRow(&r, parts[:]...)
		if err != nil {
			return // a time beyond what JSON can say
		}
		_, parts2, err := decodeRecord(again)
		if err != nil {
			t.Fatal(err)
		}
		for i := range parts {
			if !bytes.Equal(parts[i].data, parts2[i].data) || (parts[i].blob == nil) != (parts2[i].blob == nil) {
				t.Fatalf("part %d differs", i)
			}
		}
	})
}

// FuzzCheckSize: any bytes as a database are refused or long enough.
func FuzzCheckSize(f *testing.F) {
	if raw, err := os.ReadFile("testdata/v1.db"); err == nil {
		f.Add(raw)
		f.Add(raw[:5000])
		f.Add(raw[:64])
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		path := filepath.Join(t.TempDir(), "x.db")
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if err := checkSize(file, func() bool { return true }); err != nil {
			return
		}
		m, err := readMeta(file, int64(len(raw)))
		if err != nil || int64(m.pages)*int64(m.pageSize) > int64(len(raw)) {
			t.Fatalf("accepted %d bytes: %+v, %v", len(raw), m, err)
		}
	})
}
