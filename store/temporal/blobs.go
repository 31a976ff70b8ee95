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
//
// Each is of a run, of a flow, or of a workflow that belongs to none, by whose id it is found and removed; an
// id is one that store.ValidID takes.
type Blobs interface {
	Put(of string, raw []byte) (digest string, err error)
	Get(of, digest string) ([]byte, error)
	// Drop removes some; one that is not there is no error.
	Drop(of string, digests ...string) error
	// Remove removes all of a run; none is no error.
	Remove(of string) error
}

// blobs are those of one run.
type blobs struct {
	all Blobs
	of  string
}

func (s *service) blobsOf(of core.ID) blobs { return blobs{s.opts.Blobs, string(of)} }

// inline is how large a value in the history may be.
const inline = 64 << 10

// Folder keeps blobs as files of a folder; several machines share it by their file system.
type Folder string

// Put implements Blobs.
func (f Folder) Put(of string, raw []byte) (string, error) {
	sum := sha256.Sum256(raw)
	name := hex.EncodeToString(sum[:])
	dir, err := f.dir(of)
	if err != nil {
		return "", err
	}
	err = os.MkdirAll(dir, 0o700)
	if err == nil {
		err = write(filepath.Join(dir, name), raw)
	}
	if err == nil { // also of a folder, and of a blob, that another process has just made
		err = errors.Join(syncDir(dir), syncDir(filepath.Dir(dir)), syncDir(string(f)))
	}
	if err != nil {
		return "", blobFailure("write", err)
	}
	return name, nil
}

// write writes a file that nobody sees before all of it is on the disk; one that is there stays.
func write(path string, raw []byte) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".tmp-")
	if err != nil {
		return err
	}
	_, err = tmp.Write(raw)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
	return err
}

// Get implements Blobs. What does not have its digest is damaged.
func (f Folder) Get(of, digest string) ([]byte, error) {
	if want, err := hex.DecodeString(digest); err != nil || len(want) != sha256.Size {
		return nil, core.Errorf(core.CodeStoreFailed, "%q is no digest of a blob", core.Visible(digest, 80, false))
	}
	dir, err := f.dir(of)
	if err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(filepath.Join(dir, digest))
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

// Drop implements Blobs.
func (f Folder) Drop(of string, digests ...string) error {
	dir, err := f.dir(of)
	if err != nil {
		return err
	}
	for _, digest := range digests {
		if !store.ValidID(core.ID(digest)) {
			return core.Errorf(core.CodeStoreFailed, "%q is no digest of a blob", core.Visible(digest, 80, false))
		}
		if err := os.Remove(filepath.Join(dir, digest)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return blobFailure("remove", err)
		}
	}
	return nil
}

// Remove implements Blobs.
func (f Folder) Remove(of string) error {
	dir, err := f.dir(of)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return blobFailure("remove", err)
	}
	return nil
}

// dir is the folder of a run's blobs, in one of 256, because some file systems get slow with many.
func (f Folder) dir(of string) (string, error) {
	if !store.ValidID(core.ID(of)) {
		return "", store.NoRun(core.ID(of))
	}
	sum := sha256.Sum256([]byte(of))
	return filepath.Join(string(f), hex.EncodeToString(sum[:1]), of), nil
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
func away(b blobs, raw json.RawMessage) (value, error) {
	if len(raw) <= inline {
		return value{Here: raw}, nil
	}
	digest, err := b.all.Put(b.of, raw)
	return value{Blob: digest}, err
}

// awayJSON is away of what becomes JSON.
func awayJSON(b blobs, v any) (value, error) {
	raw, err := store.Encode(v)
	if err != nil {
		return value{}, err
	}
	return away(b, raw)
}

// load is a value as it was; nil for none.
func load(b blobs, v value) (json.RawMessage, error) {
	if v.Blob == "" {
		return v.Here, nil
	}
	return b.all.Get(b.of, v.Blob)
}

func loadJSON[T any](b blobs, v value) (out T, err error) {
	raw, err := load(b, v)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if _, told := errors.AsType[*core.Error](err); err != nil && !told {
		err = core.Errorf(core.CodeStoreFailed, "a part of a run cannot be read: %w", err)
	}
	return out, err
}
