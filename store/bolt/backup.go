package bolt

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	bbolt "go.etcd.io/bbolt"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/store"
)

// blobsDir is the folder of large values of the store that options describe.
func blobsDir(opts Options) string {
	if opts.Exclusive {
		return filepath.Join(opts.Dir, opts.Name+".blobs")
	}
	return filepath.Join(opts.Dir, "blobs")
}

// Snapshot writes the database as it is after the last commit, and the large values
// of its runs, into a folder, under the names that they have in Options.Dir. Other
// operations, also of other processes, wait meanwhile, so that no run is removed
// between the two.
func (s *Store) Snapshot(ctx context.Context, dir string) error {
	return s.submit(ctx, &op{f: func(t *txn) error { return s.failure("back up", s.snapshot(t.tx.DB(), dir)) }})
}

// snapshot may be made again over what one before has left.
func (s *Store) snapshot(db *bbolt.DB, dir string) error {
	tx, err := db.Begin(false)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := makeDir(dir); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, s.opts.Name+".db"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = tx.WriteTo(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	at := s.opts
	at.Dir = dir
	return linkBlobs(s.blobs, blobs{dir: blobsDir(at)}, func(id core.ID) bool { return tx.Bucket(bucketRuns).Get([]byte(id)) != nil })
}

// linkBlobs gives the blobs of some runs a second name, or copies them where a file
// can have only one. A blob is never written again.
func linkBlobs(from, to blobs, wanted func(core.ID) bool) error {
	runs, err := os.ReadDir(from.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range runs {
		id := core.ID(e.Name())
		if !e.IsDir() || !wanted(id) {
			continue
		}
		if err := linkFolder(from.folder(id), to.folder(id)); err != nil {
			return err
		}
	}
	return nil
}

func linkFolder(from, to string) error {
	files, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	if err := makeDir(to); err != nil {
		return err
	}
	for _, f := range files {
		if strings.HasPrefix(f.Name(), ".") {
			continue // one that is being written; no commit refers to it
		}
		a, b := filepath.Join(from, f.Name()), filepath.Join(to, f.Name())
		if err := os.Link(a, b); err == nil || errors.Is(err, fs.ErrExist) {
			continue
		}
		raw, err := os.ReadFile(a)
		if err == nil {
			err = os.WriteFile(b, raw, 0o600)
		}
		if err == nil {
			err = syncFile(b)
		}
		if err != nil {
			return err
		}
	}
	return syncDir(to)
}

// Contents is what a store holds, as far as a restore has to know it.
type Contents struct {
	Runs  []core.ID
	Audit int64 // the number of the last row of the audit log

	guard  []byte // what decisions need, as it is stored; nil for nothing
	events uint64 // the number of the last event
}

// Verify reads all of a store that nobody uses: pages, runs with their large values,
// and the chain of the audit log.
func Verify(ctx context.Context, opts Options) (Contents, error) {
	opts = opts.withDefaults()
	if _, err := os.Lstat(dbPath(opts)); err != nil {
		return Contents{}, fileFailure("open", dbPath(opts), err)
	}
	s, err := Open(opts)
	if err != nil {
		return Contents{}, err
	}
	c, err := verify(ctx, s)
	return c, errors.Join(err, s.Close())
}

func verify(ctx context.Context, s *Store) (c Contents, err error) {
	err = s.submit(ctx, &op{f: func(t *txn) error {
		return s.failure("check", guarded(func() error {
			for err := range t.tx.Check() {
				return &damage{reason: err.Error()}
			}
			return nil
		}))
	}})
	if err != nil {
		return c, err
	}
	if c, err = contentsOf(ctx, s); err != nil {
		return c, err
	}
	for _, id := range c.Runs {
		if _, err := s.Run(ctx, id); err != nil {
			return c, err
		}
		if _, err := s.Program(ctx, id); err != nil && core.CodeOf(err) != core.CodeNotFound {
			return c, err
		}
		if _, err := s.Journal(ctx, id, 0); err != nil {
			return c, err
		}
		if _, err := s.Checkpoints(ctx, id); err != nil {
			return c, err
		}
	}
	rows, err := s.Audit(ctx, store.AuditFilter{})
	if err != nil {
		return c, err
	}
	if bad, reason := approval.Verify(rows); bad != 0 {
		return c, s.failure("check", &damage{reason: "its audit log does not hold at a row: " + reason})
	}
	return c, nil
}

func contentsOf(ctx context.Context, s *Store) (c Contents, err error) {
	runs, err := s.Runs(ctx, store.RunFilter{})
	if err != nil {
		return c, err
	}
	for _, r := range runs {
		c.Runs = append(c.Runs, r.ID)
	}
	err = s.read(ctx, func(t *txn) error {
		if k, _ := t.bucket(bucketAudit).Cursor().Last(); k != nil {
			c.Audit = keySeq(k)
		}
		return nil
	})
	return c, err
}

// Held is a store that nobody else uses until Release.
type Held struct {
	opts Options
	o    *shared
}

// Hold takes the lock of a store. It is core.CodeStoreBusy while another process has it,
// or executes runs of the store.
func Hold(opts Options) (*Held, error) {
	opts = opts.withDefaults()
	o := newShared(opts, &seqFile{})
	ok, err := o.tryLock()
	if err == nil && !ok {
		err = core.Errorf(core.CodeStoreBusy, "the store %s is in use by %s; end it and try again", o.path, o.holder())
	}
	if err != nil {
		o.close()
		return nil, err
	}
	h := &Held{opts, o}
	if err := nobodyRuns(opts); err != nil {
		h.Release()
		return nil, err
	}
	return h, nil
}

// Release gives the lock back.
func (h *Held) Release() {
	h.o.unlock()
	h.o.close()
}

// Contents lists what the store holds; nothing when there is none.
func (h *Held) Contents() (Contents, error) {
	c, err := h.o.contents()
	return c, fileFailure("read", h.o.path, err)
}

// Replace puts a store that Verify has found whole in the place of this one: its large
// values first, then, with one rename, its database. The staged one must lie on the
// same file system. Until the rename the store is as it was. What decisions need here
// is still needed afterwards, whatever the backup says. Events go on behind the last
// number of either: whoever follows them has seen the numbers up to there.
func (h *Held) Replace(staged Options) error {
	staged = staged.withDefaults()
	now, err := h.o.contents()
	if err == nil {
		err = now.carry(staged)
	}
	if err != nil && !isDamage(err) {
		return fileFailure("replace", h.o.path, err)
	}
	return fileFailure("replace", h.o.path, h.replace(dbPath(staged), blobs{dir: blobsDir(staged)}, blobs{dir: blobsDir(h.opts)}))
}

func (h *Held) replace(db string, from, to blobs) error {
	if err := linkBlobs(from, to, func(core.ID) bool { return true }); err != nil {
		return err
	}
	if exists(to.dir) {
		if err := syncDir(to.dir); err != nil {
			return err
		}
	}
	if err := errors.Join(syncDir(h.opts.Dir), syncFile(db)); err != nil {
		return err
	}
	if err := os.Rename(db, h.o.path); err != nil {
		return err
	}
	return errors.Join(removeIfThere(h.o.path+logExtension), syncDir(h.opts.Dir))
}

// carry writes into a staged store what stays as it is in this one.
func (c Contents) carry(staged Options) error {
	o := newShared(staged, &seqFile{})
	defer o.close()
	f, err := o.openFile(true)
	if err != nil {
		return err
	}
	err = guarded(func() error {
		return f.db.Update(func(tx *bbolt.Tx) error {
			if c.guard != nil {
				if err := tx.Bucket(bucketMeta).Put(keyGuard, c.guard); err != nil {
					return err
				}
			}
			events := tx.Bucket(bucketEvents)
			if err := events.SetSequence(max(c.events, events.Sequence())); err != nil {
				return err
			}
			return stamp(tx)
		})
	})
	if err != nil && isDamage(err) {
		err = errors.New(err.Error()) // of the staged store: that one is not put in place
	}
	return errors.Join(err, f.finish(false))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// nobodyRuns refuses while a process is a runner of a shared store. The runner of an
// exclusive one has its lock.
func nobodyRuns(opts Options) error {
	if opts.Exclusive {
		return nil
	}
	d := &runnerDir{dir: filepath.Join(opts.Dir, "runners")}
	files, err := filepath.Glob(filepath.Join(d.dir, "*.lock"))
	if err != nil {
		return err
	}
	for _, f := range files {
		id := strings.TrimSuffix(filepath.Base(f), ".lock")
		if alive, err := d.alive(id); err != nil {
			return fileFailure("look at", f, err)
		} else if alive {
			raw, _ := os.ReadFile(f)
			return core.Errorf(core.CodeStoreBusy, "process %s executes workflows of the store %s; end it and try again",
				core.Visible(strings.TrimSpace(string(raw)), 20, false), dbPath(opts))
		}
	}
	return nil
}

// contents lists what the file holds; nothing when there is none.
func (o *dbFile) contents() (c Contents, err error) {
	if !exists(o.path) {
		return c, nil
	}
	h, err := o.openReady(false)
	if err != nil {
		return c, err
	}
	err = guarded(func() error {
		return h.db.View(func(tx *bbolt.Tx) error {
			if k, _ := tx.Bucket(bucketAudit).Cursor().Last(); k != nil {
				c.Audit = keySeq(k)
			}
			c.guard = bytes.Clone(tx.Bucket(bucketMeta).Get(keyGuard))
			c.events = tx.Bucket(bucketEvents).Sequence()
			return tx.Bucket(bucketRuns).ForEach(func(k, _ []byte) error {
				c.Runs = append(c.Runs, core.ID(k))
				return nil
			})
		})
	})
	return c, errors.Join(err, h.finish(isDamage(err)))
}
