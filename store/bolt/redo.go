package bolt

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"strconv"

	bbolt "go.etcd.io/bbolt"

	"github.com/casys-ai/pml/store/bolt/redo"
)

// redoer has the redo log of a file. A commit is made durable by its record there,
// with one sync, and counts from then on; bbolt brings it into the file afterwards,
// without any. Who opens a file that lacks the last record, because that was not
// done, does it first. The file is synced when the log is full and when it rests:
// that is the log's new base. Pages of the base are not used again before the next
// one, so that after a loss of power its meta pages can be put back and the records
// be made again.
//
// A commit for which there is no room is synced by bbolt, with the log off.
type redoer struct {
	path  string
	limit int64             // of the log, in bytes
	least int64             // bytes of the file that are mapped at once
	step  int               // bytes by which the file grows
	boot  string            // as in Options; "": there is no log
	era   [sha256.Size]byte // of what is written now; known once the log is open
	salt  func() []byte
	sync  func(*bbolt.DB) error // (*bbolt.DB).Sync; tests replace it
	flush func(*redo.Log) error // (*redo.Log).Sync; tests replace it
	log   *redo.Log             // nil until it is needed
	room  bool                  // the disk has room for all of it
	tell  *slog.Logger
}

// The sizes of logs: after half of so many bytes the file has to be synced. What is
// mapped at once is no memory yet.
const (
	redoShared    = 512 << 10
	redoExclusive = 2 << 20
	mapShared     = 64 << 20
	mapExclusive  = 256 << 20
	growShared    = 256 << 10
	growExclusive = 4 << 20
)

// heldPages is how many pages the base may keep from being used again, together
// with those that were freed since. The file grows by them, and would soon look
// like one that is to be compacted.
const heldPages = 2048

func newRedoer(opts Options, limit, least int64, step int) redoer {
	r := redoer{
		path: dbPath(opts) + ".redo", limit: limit, least: least, step: step,
		salt: func() []byte { return []byte(opts.NewID()) }, sync: (*bbolt.DB).Sync, flush: (*redo.Log).Sync, tell: opts.Logger,
	}
	if strconv.IntSize == 64 { // elsewhere there is no room to map a file before it has grown
		r.boot = opts.Boot
	}
	return r
}

// base is the state of the database in which it was synced last.
type base struct {
	// Era is the digest of the run of the machine and of the mount: what was written
	// in another one, and not synced, may be lost.
	Era    [sha256.Size]byte
	Page   uint64 // bytes of a page
	Commit uint64
	// Root is the digest of the page of the root, which each commit writes anew: a
	// file that has it there has the whole base. (Numbers of devices, and of files,
	// may be others after a start.)
	Root  [sha256.Size]byte
	Metas [2][stampLen]byte
}

func (b *base) encode() ([]byte, error) { return binary.Append(nil, binary.LittleEndian, b) }

func decodeBase(raw []byte) (b base, ok bool) {
	n, err := binary.Decode(raw, binary.LittleEndian, &b)
	return b, err == nil && n == len(raw)
}

// newest is the newest valid of its meta pages.
func (b *base) newest() (m meta, ok bool) { return newestOf(&b.Metas) }

func newestOf(metas *[2][stampLen]byte) (m meta, ok bool) {
	for _, raw := range metas {
		if one, valid := parseMeta(raw[metaStart:]); valid && (!ok || one.txid > m.txid) {
			m, ok = one, true
		}
	}
	return m, ok
}

// opened returns the log that is at its path; nil when there is none. create makes
// one that is missing; one that goes missing while it is in use is made again.
func (r *redoer) opened(create bool) (*redo.Log, error) {
	if r.log != nil {
		if r.log.Here() {
			return r.log, nil
		}
		r.close() // somebody has removed or replaced the file
		create = r.boot != ""
	}
	if _, err := os.Stat(r.path); errors.Is(err, fs.ErrNotExist) && !create {
		return nil, nil
	} else if create && r.boot == "" {
		return nil, nil
	}
	log, err := redo.Open(r.path, r.limit)
	if err != nil {
		return nil, err
	}
	r.log, r.era = log, sha256.Sum256([]byte(r.boot+"\n"+mountID(r.path)))
	r.room = false
	return log, nil
}

func (r *redoer) close() {
	if r.log != nil {
		_ = r.log.Close()
		r.log = nil
	}
}

// commit makes a transaction durable: it counts when commit returns no error. write
// brings it into the file, and has to be called before the file is used again; it
// is nil when that is done.
func (o *dbFile) commit(h *handle, tx *bbolt.Tx, c *changes, finish func(*bbolt.Tx) error) (write func() error, err error) {
	logged, err := o.begin(h, tx, c)
	if err == nil && logged {
		err = o.redo.append(h, tx, c)
		if err != nil && o.logOff(h) == nil { // the disk may be full, and the file have free pages
			logged, err = false, nil
		}
	}
	if err != nil {
		return nil, errors.Join(err, tx.Rollback())
	}
	if !logged {
		return nil, finish(tx)
	}
	return func() error {
		// To map the file anew bbolt would wait for the base to be let go, for ever.
		h.db.NoSync, h.db.MaxSize = true, int(h.mapped)+h.db.AllocSize-1
		defer func() { h.db.NoSync, h.db.MaxSize = false, 0 }()
		return finish(tx)
	}, nil
}

func (r *redoer) append(h *handle, tx *bbolt.Tx, c *changes) error {
	var raw [stampLen]byte
	before := uint64(tx.ID()) - 1 // whose meta page this is, as bbolt has it
	if _, err := h.file.ReadAt(raw[:], int64(before%2)*int64(h.db.Info().PageSize)); err != nil {
		return err
	}
	m, ok := parseMeta(raw[metaStart:])
	if !ok || m.txid != before {
		return &damage{reason: "the page of its last commit is invalid"}
	}
	return r.log.Append(redo.Record{Commit: uint64(tx.ID()), After: m.sum, Payload: c.raw})
}

// begin makes the log ready for a transaction; false when bbolt has to sync it.
func (o *dbFile) begin(h *handle, tx *bbolt.Tx, c *changes) (logged bool, err error) {
	log, err := o.redo.opened(true)
	if log == nil || err != nil {
		return false, err
	}
	if h.base != nil && h.in != log { // it is the base of a log that is gone
		if err := o.logOff(h); err != nil {
			return false, err
		}
	}
	h.mapped = max(h.mapped, mappedFor(tx.Size()))
	size := tx.Size() + growth(tx, c)
	o.redo.room = o.redo.room || log.Reserve() == nil
	switch {
	case !o.redo.room || c.unknown || !log.Holds(len(c.raw)) || size >= h.mapped || !o.reserve(h, size):
		return false, o.logOff(h)
	case h.base != nil && log.Fits(len(c.raw)) && !h.crowded(tx):
		return true, nil
	}
	return true, o.rebase(h)
}

// reserve takes room on the disk for a file of so many bytes, since what counts
// already has to get into the file; false when there is none.
func (o *dbFile) reserve(h *handle, size int64) bool {
	if size <= h.reserved {
		return true
	}
	step := int64(o.redo.step)
	size = (size + step - 1) / step * step
	if err := redo.Reserve(h.file, size); err != nil {
		return false
	}
	h.reserved = size
	return true
}

// growth is what a transaction adds to the file at most, in bytes, unless it
// rewrites what is much larger than its changes: with a base held, the file cannot
// be mapped anew.
func growth(tx *bbolt.Tx, c *changes) int64 {
	page := int64(tx.DB().Info().PageSize)
	written := min(64*int64(c.n), tx.Size()/page) + 4*int64(c.n) // pages that change, and into which they split
	large := 4 * int64(len(c.raw)) / page
	free := tx.Size() / page * 8 / page
	return (written + large + free + 64) * page
}

// mappedFor is how far a file is mapped at least that has so many bytes in use.
func mappedFor(size int64) int64 {
	const most = 1 << 30
	for n := int64(1 << 15); n <= most; n *= 2 {
		if size <= n {
			return n
		}
	}
	return (size + most - 1) / most * most
}

// rebase makes the file as it is now the base of the log.
func (o *dbFile) rebase(h *handle) error {
	commit, raw, err := o.baseOf(h)
	if err != nil {
		return err
	}
	log := o.redo.log
	if h.base == nil {
		known, err := log.Load()
		if err != nil {
			return err
		}
		if bytes.Equal(known, raw) {
			if list, err := log.Records(commit, 1); err != nil || len(list) == 0 {
				return errors.Join(err, h.hold(log))
			}
		}
	}
	if err := o.redo.sync(h.db); err != nil {
		return err
	}
	if err := log.Begin(raw, o.redo.salt()); err != nil {
		return err
	}
	return h.hold(log)
}

// crowded reports whether the base keeps too many pages. The number is that of the
// last commit: the first one with a new base still had those of the base before.
func (h *handle) crowded(tx *bbolt.Tx) bool {
	return tx.ID() > h.base.ID()+2 && h.db.Stats().PendingPageN >= heldPages
}

// hold keeps the pages of the present state from being used again, and lets go
// of what was held before.
func (h *handle) hold(log *redo.Log) error {
	tx, err := h.db.Begin(false)
	if err != nil {
		return err
	}
	h.letGo()
	h.base, h.in = tx, log
	return nil
}

func (h *handle) letGo() {
	if h.base != nil {
		_ = h.base.Rollback()
		h.base, h.in = nil, nil
	}
}

// logOff lets the file stand for itself.
func (o *dbFile) logOff(h *handle) error {
	log, err := o.redo.opened(false)
	if log == nil || err != nil {
		return err
	}
	if _, err := log.Load(); err != nil {
		return err
	}
	based := h.base != nil // if not in this log, in one that is gone
	h.letGo()
	if !log.On() && !based {
		return o.redo.flush(log) // else the head before may count again
	}
	if err := o.redo.sync(h.db); err != nil {
		return err
	}
	return log.End(o.redo.salt())
}

// baseOf describes the file as it is.
func (o *dbFile) baseOf(h *handle) (commit uint64, raw []byte, err error) {
	b := base{Era: o.redo.era, Page: uint64(h.db.Info().PageSize)}
	if err := readMetas(h, &b.Metas); err != nil {
		return 0, nil, err
	}
	m, ok := b.newest()
	if !ok {
		return 0, nil, &damage{reason: "both of its first pages are invalid"}
	}
	b.Commit = m.txid
	if b.Root, err = b.rootIn(h.file); err != nil {
		return 0, nil, err
	}
	raw, err = b.encode()
	return b.Commit, raw, err
}

// rootIn is the digest of the page at which a file has the root of the base.
func (b *base) rootIn(f *os.File) (sum [sha256.Size]byte, err error) {
	m, _ := b.newest()
	page := make([]byte, b.Page)
	if _, err := f.ReadAt(page, int64(m.root*b.Page)); err != nil {
		return sum, err
	}
	return sha256.Sum256(page), nil
}
