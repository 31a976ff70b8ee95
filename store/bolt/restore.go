package bolt

import (
	"errors"
	"io/fs"
	"math"
	"os"

	bbolt "go.etcd.io/bbolt"

	"github.com/casys-ai/pml/store/bolt/redo"
)

// restore makes the file whole: what was lost with the power since it was synced is
// made again, or the one commit that counts and that somebody who was killed has not
// brought into the file.
func (o *dbFile) restore() error {
	log, err := o.redo.opened(false)
	if log == nil || err != nil {
		return err
	}
	raw, err := log.Load()
	b, ok := decodeBase(raw)
	switch {
	case err != nil || !ok:
		return err
	case o.redo.boot != "" && b.Era == o.redo.era:
		return o.catchUp(&b)
	}
	records, err := log.Records(b.Commit, math.MaxInt)
	if err != nil {
		return err
	}
	if lost, err := o.putBack(&b, uint64(len(records))); !lost || err != nil {
		return err
	}
	h, err := o.openFile(true)
	if err != nil {
		return err
	}
	if err = h.again(records); err == nil {
		o.redo.tell.Warn("the store was made whole after a loss of power", "path", o.path, "commits", len(records))
		err = o.logOff(h)
	}
	return errors.Join(err, h.finish(isDamage(err)))
}

// again makes records in one commit.
func (h *handle) again(records []redo.Record) error {
	return guarded(func() error {
		return h.db.Update(func(tx *bbolt.Tx) error {
			for _, r := range records {
				if err := remake(tx, r.Payload); err != nil {
					return err
				}
			}
			return stamp(tx)
		})
	})
}

// putBack writes the meta pages of the base if the file may lack something of the
// commits that follow it. A file that does not have the base (another one was put
// in its place), or that others have written since, is left alone.
func (o *dbFile) putBack(b *base, commits uint64) (lost bool, err error) {
	f, err := os.OpenFile(o.path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	if !b.in(f, info.Size()) {
		return false, nil
	}
	if m, err := readMeta(f, info.Size()); err == nil && m.txid > b.Commit+commits {
		return false, nil
	}
	for i, raw := range b.Metas {
		if _, err := f.WriteAt(raw[:], int64(i)*int64(b.Page)); err != nil {
			return false, err
		}
	}
	return true, f.Sync()
}

// in reports whether a file of so many bytes has the base.
func (b *base) in(f *os.File, size int64) bool {
	m, ok := b.newest()
	if !ok || int64(m.pages*b.Page) > size {
		return false
	}
	root, err := b.rootIn(f)
	return err == nil && root == b.Root
}

// catchUp brings the last record into the file if that was not done. At any moment
// the log has it, on the base on which the file is.
func (o *dbFile) catchUp(b *base) error {
	last, err := o.lastOn(b)
	if last.txid == 0 || err != nil {
		return err
	}
	r, ok, err := o.redo.next(last)
	if !ok || err != nil {
		return err
	}
	h, err := o.openFile(true)
	if err != nil {
		return err
	}
	if err = o.finishLast(h, r); err == nil {
		o.redo.tell.Info("the last commit was not in the store yet, and is now", "path", o.path)
	}
	return errors.Join(err, h.finish(isDamage(err)))
}

func (o *dbFile) finishLast(h *handle, r redo.Record) error {
	if err := o.redo.sync(h.db); err != nil {
		return err
	}
	_, raw, err := o.baseOf(h)
	if err != nil {
		return err
	}
	if err := o.redo.log.BeginWith(raw, o.redo.salt(), r); err != nil {
		return err
	}
	h.db.NoSync = true
	return h.again([]redo.Record{r})
}

// lastOn describes the last commit of the file; its number is 0 when the file does not
// have the base.
func (o *dbFile) lastOn(b *base) (last meta, err error) {
	f, err := os.Open(o.path)
	if errors.Is(err, fs.ErrNotExist) {
		return last, nil
	}
	if err != nil {
		return last, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil || !b.in(f, info.Size()) {
		return last, err
	}
	if last, err = readMeta(f, info.Size()); err != nil {
		return meta{}, nil // who opens it says what is wrong
	}
	return last, nil
}

// next returns the record of the commit that follows the last one of a file, if it
// is the only one: each commit has the one before in the file. A file that lacks
// more of them, or in which the last commit is another one, was put in the place of
// the one that the log belongs to, or was written by others.
func (r *redoer) next(last meta) (rec redo.Record, ok bool, err error) {
	log, err := r.opened(false)
	if log == nil || err != nil {
		return rec, false, err
	}
	if !log.Follows(last.txid) || !log.Same() {
		raw, err := log.Load()
		b, ok := decodeBase(raw)
		if err != nil || !ok || last.txid < b.Commit {
			return rec, false, err
		}
		if _, err := log.Records(b.Commit, int(last.txid-b.Commit)); err != nil || !log.Follows(last.txid) {
			return rec, false, err
		}
	}
	list, err := log.Rest(2)
	if err != nil || len(list) != 1 || list[0].After != last.sum {
		return rec, false, err
	}
	return list[0], true, nil
}

// goesOn reports whether a handle that was kept can be used on: the file has all
// that the log has, and nobody else has begun the log anew in which its base is.
func (o *dbFile) goesOn(h *handle, last meta) bool {
	if h.base != nil && !h.in.Here() { // nobody finds its records
		if o.redo.sync(h.db) != nil {
			return false
		}
		h.letGo()
	}
	if h.base != nil && !h.in.Same() {
		return false
	}
	_, ok, err := o.redo.next(last)
	return !ok && err == nil
}
