package bolt

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"os"
	"syscall"

	bbolt "go.etcd.io/bbolt"

	"github.com/casys-ai/pml/core"
)

// The first releases of pml kept a redo log beside the database (Name.db.redo): a commit was
// durable once the log was synced, and reached the file later, without a sync. No
// log is written any more. This file reads the one that such a pml has left: a log
// whose commits the file may lack is applied by ApplyLog, and until then the store
// is refused; any other log is removed.

// The layout of a log: two heads, of which the one with the higher number is the valid one, and
// behind them records.
const (
	logHeadRoom  = 4096
	logHeadLen   = 8 + 8 + 8 + 2 + 2 + 4 // magic, number, begin of the records, lengths of salt and base, checksum
	logFrontLen  = 4 + 4 + 8 + 8         // of a record: length, checksum, commit, state before
	logLargest   = 64 << 20              // no log was ever larger
	logMagic     = "pmlredo2"
	logExtension = ".redo"
)

var logTable = crc32.MakeTable(crc32.Castagnoli)

// logBase is the state of the database in which it was last synced: the records of
// a log follow it. No page of it was used again until the next base.
type logBase struct {
	Era    [sha256.Size]byte // boot and mount; not needed to apply the log
	Page   uint64            // bytes of a page
	Commit uint64
	Root   [sha256.Size]byte // of the page of the root
	Metas  [2][stampLen]byte
}

// oldLog is what was read of a log.
type oldLog struct {
	base    logBase
	on      bool
	records [][]byte // the changes of the commits after the base, in order
}

// readOldLog reads the log at a path.
func readOldLog(path string) (oldLog, error) {
	f, err := os.Open(path)
	if err != nil {
		return oldLog{}, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return oldLog{}, err
	}
	if info.Size() > logLargest || !info.Mode().IsRegular() {
		return oldLog{}, &damage{reason: path + " is not a redo log of pml"}
	}
	raw := make([]byte, info.Size())
	if _, err := f.ReadAt(raw, 0); err != nil {
		return oldLog{}, err
	}
	return parseOldLog(raw), nil
}

// parseOldLog reads a log. Bytes that are none are a log that is off.
func parseOldLog(raw []byte) (l oldLog) {
	var number, from uint64
	var salt []byte
	for at := 0; at < 2*logHeadRoom && at < len(raw); at += logHeadRoom {
		if n, begin, s, base, ok := parseLogHead(raw[at:min(len(raw), at+logHeadRoom)]); ok && n >= number {
			number, from, salt = n, begin, s
			used, err := binary.Decode(base, binary.LittleEndian, &l.base)
			l.on = err == nil && used == len(base)
		}
	}
	if !l.on || l.base.Page == 0 || from > uint64(len(raw)) {
		return oldLog{}
	}
	seed := logSum(0, binary.LittleEndian.AppendUint64(nil, number), salt)
	rest := raw[from:]
	for commit := l.base.Commit + 1; len(rest) >= logFrontLen; commit++ {
		size := uint64(binary.LittleEndian.Uint32(rest))
		if size == 0 || size > uint64(len(rest)-logFrontLen) || binary.LittleEndian.Uint64(rest[8:]) != commit {
			break
		}
		changes := rest[logFrontLen : logFrontLen+size]
		if binary.LittleEndian.Uint32(rest[4:]) != logSum(seed, rest[:4], rest[8:logFrontLen], changes) {
			break
		}
		l.records, rest = append(l.records, changes), rest[logFrontLen+size:]
	}
	return l
}

func parseLogHead(raw []byte) (number, from uint64, salt, base []byte, ok bool) {
	if len(raw) < logHeadLen || string(raw[:8]) != logMagic {
		return 0, 0, nil, nil, false
	}
	s, b := int(binary.LittleEndian.Uint16(raw[24:])), int(binary.LittleEndian.Uint16(raw[26:]))
	if logHeadLen+s+b > len(raw) {
		return 0, 0, nil, nil, false
	}
	rest := raw[logHeadLen : logHeadLen+s+b]
	if binary.LittleEndian.Uint32(raw[28:]) != logSum(0, raw[:28], rest) {
		return 0, 0, nil, nil, false
	}
	return binary.LittleEndian.Uint64(raw[8:]), binary.LittleEndian.Uint64(raw[16:]), rest[:s], rest[s:], true
}

func logSum(seed uint32, parts ...[]byte) uint32 {
	for _, p := range parts {
		seed = crc32.Update(seed, logTable, p)
	}
	return seed
}

// pending reports whether the database file may lack commits of the log: the file
// has the log's base, and nobody has written it since the last record. Whether all
// that it shows has reached the disk cannot be told from the file.
func (l *oldLog) pending(path string) (bool, error) {
	if !l.on || len(l.records) == 0 {
		return false, nil
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	first, ok := newestMeta(&l.base.Metas)
	if !ok || l.base.Page > math.MaxUint16+1 || first.pages > uint64(info.Size())/l.base.Page || first.root >= first.pages {
		return false, nil
	}
	page := make([]byte, l.base.Page)
	if _, err := f.ReadAt(page, int64(first.root*l.base.Page)); err != nil || sha256.Sum256(page) != l.base.Root {
		return false, nil // another file was put in its place
	}
	m, err := readMeta(f, info.Size())
	return err != nil || m.txid <= l.base.Commit+uint64(len(l.records)), nil
}

// newestMeta is the newest valid one of two meta pages.
func newestMeta(metas *[2][stampLen]byte) (m meta, ok bool) {
	for _, raw := range metas {
		if one, valid := parseMeta(raw[metaStart:]); valid && (!ok || one.txid > m.txid) {
			m, ok = one, true
		}
	}
	return m, ok
}

// settleLog refuses a file that may lack commits of an old redo log, and removes a
// log that holds nothing. The lock is held.
func (o *dbFile) settleLog() error {
	log := o.path + logExtension
	if _, err := os.Lstat(log); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	l, err := readOldLog(log)
	if err != nil {
		return err
	}
	pending, err := l.pending(o.path)
	if err != nil {
		return err
	}
	if pending {
		return core.Errorf(core.CodeStoreFailed,
			"the store %s has a redo log of an older pml beside it with %d commit(s) that the file may lack; end all other pml processes, copy both files if you want to be able to go back, and apply the log; nothing was changed",
			o.path, len(l.records)).WithNext("pml", "doctor", "--apply-log")
	}
	err = o.removeLog()
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return nil // it says nothing, and who may write removes it
	}
	return err
}

// removeLog removes the log once the file is durable without it.
func (o *dbFile) removeLog() error {
	if err := syncFile(o.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Remove(o.path + logExtension); err != nil {
		return err
	}
	return syncDir(o.dir)
}

// ApplyLog brings the commits that an older pml has left in the redo log of a store
// into its database file, and removes the log. It returns how many they were; 0 when
// there is no such log. It can be tried again whenever it was interrupted.
func ApplyLog(opts Options) (commits int, err error) {
	opts = opts.withDefaults()
	if _, err := os.Lstat(dbPath(opts) + logExtension); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	o := newShared(opts, &seqFile{})
	defer o.close()
	ok, err := o.tryLock()
	if err != nil {
		return 0, err
	}
	if !ok {
		return 0, core.Errorf(core.CodeStoreBusy, "the store %s is in use by %s; end it and try again", o.path, o.holder())
	}
	defer o.unlock()
	commits, err = o.applyLog()
	return commits, fileFailure("apply the log to", o.path, err)
}

func (o *dbFile) applyLog() (int, error) {
	l, err := readOldLog(o.path + logExtension)
	if err != nil {
		return 0, err
	}
	pending, err := l.pending(o.path)
	if err != nil || !pending {
		return 0, errors.Join(err, o.removeLog())
	}
	if err := l.putBack(o.path); err != nil {
		return 0, err
	}
	h, err := o.openFile(true)
	if err != nil {
		return 0, err
	}
	err = guarded(func() error {
		return h.db.Update(func(tx *bbolt.Tx) error {
			for _, changes := range l.records {
				if err := remake(tx, changes); err != nil {
					return err
				}
			}
			return stamp(tx)
		})
	})
	if err = errors.Join(err, h.finish(isDamage(err))); err != nil {
		return 0, err
	}
	return len(l.records), o.removeLog()
}

// putBack writes the meta pages of the base: of what was written after it, some may
// not have reached the disk.
func (l *oldLog) putBack(path string) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for i, raw := range l.base.Metas {
		if _, err := f.WriteAt(raw[:], int64(i)*int64(l.base.Page)); err != nil {
			return err
		}
	}
	return f.Sync()
}

// remake makes the changes of a record: each is a kind, the names on the way to a
// bucket (empty ones at the end do not count), a key and a value, each behind its
// length.
func remake(tx *bbolt.Tx, raw []byte) error {
	for len(raw) > 0 {
		kind, parts := raw[0], [5][]byte{}
		raw = raw[1:]
		for i := range parts {
			n, used := binary.Uvarint(raw)
			if used <= 0 || n > uint64(len(raw)-used) {
				return &damage{reason: "a change in the redo log was cut off"}
			}
			parts[i], raw = raw[used:used+int(n):used+int(n)], raw[used+int(n):]
		}
		if err := remakeOne(tx, kind, parts[:3], parts[3], parts[4]); err != nil {
			return err
		}
	}
	return nil
}

// remakeOne makes one change: 1 puts a key, 2 deletes one, 3 creates a bucket, 4 drops
// one, 5 sets the sequence number of one.
func remakeOne(tx *bbolt.Tx, kind byte, names [][]byte, key, value []byte) error {
	for len(names) > 1 && len(names[len(names)-1]) == 0 {
		names = names[:len(names)-1]
	}
	last := names[len(names)-1]
	if kind == 3 || kind == 4 { // only what lies in another one is created and dropped
		names = names[:len(names)-1]
	}
	b := bucketAt(tx, names)
	switch {
	case b == nil:
		return &damage{reason: fmt.Sprintf("there is no bucket %q", bytes.Join(names, []byte("/")))}
	case kind == 1:
		return b.Put(key, value)
	case kind == 2:
		return b.Delete(key)
	case kind == 3:
		_, err := b.CreateBucket(last)
		return err
	case kind == 4:
		return b.DeleteBucket(last)
	case kind == 5 && len(value) == 8:
		return b.SetSequence(binary.BigEndian.Uint64(value))
	}
	return &damage{reason: fmt.Sprintf("there is no change of kind %d", kind)}
}

// bucketAt follows names from the root; nil when there is no such bucket.
func bucketAt(tx *bbolt.Tx, names [][]byte) *bbolt.Bucket {
	if len(names) == 0 {
		return nil
	}
	b := tx.Bucket(names[0])
	for _, name := range names[1:] {
		if b == nil {
			return nil
		}
		b = b.Bucket(name)
	}
	return b
}
