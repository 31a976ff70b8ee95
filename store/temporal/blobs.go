package temporal

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// Blobs keeps what is too large for the history of a workflow, by its digest. Every process
// that has the runs must reach the same ones. What is put is there for good when Put returns.
type Blobs interface {
	Put(raw []byte) (digest string, err error)
	Get(digest string) ([]byte, error)
}

// inline is how large a value in the history may be.
const inline = 64 << 10

// Folder keeps blobs as files of a folder; several machines share it by their file system.
type Folder string

// Put implements Blobs.
func (f Folder) Put(raw []byte) (string, error) {
	sum := sha256.Sum256(raw)
	name := hex.EncodeToString(sum[:])
	path := filepath.Join(string(f), name[:2], name)
	if _, err := os.Stat(path); err == nil {
		return name, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", blobFailure("write", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".tmp-")
	if err != nil {
		return "", blobFailure("write", err)
	}
	_, err = tmp.Write(raw)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
		return "", blobFailure("write", err)
	}
	return name, nil
}

// Get implements Blobs. What does not have its digest is damaged.
func (f Folder) Get(digest string) ([]byte, error) {
	if want, err := hex.DecodeString(digest); err != nil || len(want) != sha256.Size {
		return nil, core.Errorf(core.CodeStoreFailed, "%q is no digest of a blob", core.Visible(digest, 80, false))
	}
	raw, err := os.ReadFile(filepath.Join(string(f), digest[:2], digest))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, core.Errorf(core.CodeStoreFailed, "the blob %s of a run is not in %s; every process needs the same folder", digest, string(f))
	}
	if err != nil {
		return nil, blobFailure("read", err)
	}
	if sum := sha256.Sum256(raw); hex.EncodeToString(sum[:]) != digest {
		return nil, core.Errorf(core.CodeStoreFailed, "the blob %s in %s is damaged", digest, string(f))
	}
	return raw, nil
}

func blobFailure(what string, err error) error {
	return core.Errorf(core.CodeStoreFailed, "cannot %s a blob of a run: %w; look at the space and the rights of the folder", what, err)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// away is a value as a history has it: what is large goes to the blobs first.
func away(b Blobs, raw json.RawMessage) (value, error) {
	if len(raw) <= inline {
		return value{Here: raw}, nil
	}
	digest, err := b.Put(raw)
	return value{Blob: digest}, err
}

// awayJSON is away of what becomes JSON.
func awayJSON(b Blobs, v any) (value, error) {
	raw, err := store.Encode(v)
	if err != nil {
		return value{}, err
	}
	return away(b, raw)
}

// load is a value as it was; nil for none.
func load(b Blobs, v value) (json.RawMessage, error) {
	if v.Blob == "" {
		return v.Here, nil
	}
	return b.Get(v.Blob)
}

func loadJSON[T any](b Blobs, v value) (out T, err error) {
	raw, err := load(b, v)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil && core.CodeOf(err) != core.CodeStoreFailed {
		err = core.Errorf(core.CodeStoreFailed, "a part of a run cannot be read: %w", err)
	}
	return out, err
}
