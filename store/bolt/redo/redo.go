// Package redo keeps a log of what was committed to a file since that file was
// last synced. To make a commit durable, one sync of this log is enough: it is
// short and written in order, while the file itself has many pages in many places.
//
// After a loss of power the file may hold any part of what was written to it
// since its base, the state in which it was synced. Who opens it then puts the
// base back and makes the records again. While the machine runs nobody needs the
// log: the system has what was written, whatever became of who wrote it.
//
// The log is a file of its own. In front stand two heads, in turn, each in a page
// of its own; the one with the higher number counts. Behind them the records
// follow each other. What belongs to another head does not fit its salt, so a log
// begins anew by a head alone, and its space is used again.
//
// Only one process at a time may use a log; the caller sees to that.
package redo

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
)

// The layout of the file. Numbers are little-endian.
const (
	headRoom = 4096         // of each head
	start    = 2 * headRoom // of the records
	headLen  = 8 + 8 + 2 + 2 + 4
	frontLen = 4 + 4 + 8 // of a record: length, checksum, commit

	// MaxBase is the longest description of a base, with its salt, in bytes.
	MaxBase = headRoom - headLen
)

var magic = [8]byte{'p', 'm', 'l', 'r', 'e', 'd', 'o', '1'}

var table = crc32.MakeTable(crc32.Castagnoli)

// ErrFull says that a record does not fit behind the others.
var ErrFull = errors.New("the redo log is full")

// Record is what one commit did.
type Record struct {
	Commit  uint64 // its number; a log holds those of consecutive numbers
	Payload []byte
}

// Log is an open log. It is not safe for concurrent use.
type Log struct {
	path  string
	limit int64 // of the file, in bytes
	f     *os.File
	head  head
	at    int64 // where the next record goes
	// unsynced is set while a head is written that no sync has made durable.
	unsynced bool
	buf      []byte      // of a record
	heads    [start]byte // as they were read
}

// head says to what the records belong. Without a base the log is off.
type head struct {
	number uint64
	salt   []byte
	base   []byte
}

// Open opens the log at path, or creates an empty one that is off. It holds at
// most limit bytes.
func Open(path string, limit int64) (*Log, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Size() == 0 { // new, or left so by one that was killed
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Log{path: path, limit: limit, f: f, at: start}, nil
}

// syncDir makes the name of a new file durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Close closes the file.
func (l *Log) Close() error { return l.f.Close() }

// Load reads the head as it is in the file and returns its base, nil when the log
// is off. Until Records has been called the log counts as empty.
func (l *Log) Load() (base []byte, err error) {
	h, err := l.readHead()
	if err != nil {
		return nil, err
	}
	if !h.equal(l.head) {
		l.unsynced = true // who wrote the head may not have synced it
	}
	l.head, l.at = h, start
	return h.base, nil
}

// Records reads the records that belong to the head, in order: the first is that
// of the commit after the given one, and they are at most so many. What cannot be
// read as one of them ends them. The next Append follows them.
func (l *Log) Records(after uint64, most int) ([]Record, error) {
	l.at = start
	info, err := l.f.Stat()
	if err != nil {
		return nil, err
	}
	var list []Record
	for len(list) < most {
		r, ok, err := l.recordAt(l.at, info.Size(), after+1)
		if err != nil || !ok {
			return list, err
		}
		after = r.Commit
		l.at += frontLen + int64(len(r.Payload))
		list = append(list, r)
	}
	return list, nil
}

// recordAt reads the record of a commit from a file that has so many bytes; false
// when there is none.
func (l *Log) recordAt(at, end int64, commit uint64) (Record, bool, error) {
	var front [frontLen]byte
	if ok, err := l.read(front[:], at); !ok {
		return Record{}, false, err
	}
	r := Record{Commit: binary.LittleEndian.Uint64(front[8:])}
	size := int64(binary.LittleEndian.Uint32(front[:]))
	if size == 0 || at+frontLen+size > end || r.Commit != commit {
		return Record{}, false, nil
	}
	r.Payload = make([]byte, size)
	if ok, err := l.read(r.Payload, at+frontLen); !ok {
		return Record{}, false, err
	}
	ok := binary.LittleEndian.Uint32(front[4:]) == sum(l.head.seed(), front[:4], front[8:], r.Payload)
	return r, ok, nil
}

// read fills a buffer from the file; false when the file ends before.
func (l *Log) read(into []byte, at int64) (bool, error) {
	_, err := l.f.ReadAt(into, at)
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	return err == nil, err
}

// Here reports whether the file still is the one at its path. Nobody finds the
// records of one that is not.
func (l *Log) Here() bool {
	ours, err := l.f.Stat()
	if err != nil {
		return false
	}
	theirs, err := os.Stat(l.path)
	return err == nil && os.SameFile(ours, theirs)
}

// Same reports whether the file still is the one at its path, with the head that
// this log knows: whether nobody else has begun it anew.
func (l *Log) Same() bool {
	if !l.Here() {
		return false
	}
	h, err := l.readHead()
	return err == nil && h.equal(l.head)
}

// On reports whether the log has a base.
func (l *Log) On() bool { return l.head.base != nil }

// Empty reports whether the log has no records that Append has added or Records
// has found.
func (l *Log) Empty() bool { return l.at == start }

// Begin gives the log a new base and no records. The file must have been synced
// in this state. The salt must be one that no earlier head had and that nobody
// can guess. The new base is durable with the first record, or with Sync; until
// then the old one may count, so nothing of the old base may be overwritten.
func (l *Log) Begin(base, salt []byte) error {
	h := head{number: l.head.number + 1, salt: salt, base: base}
	raw := h.encode()
	if len(raw) > headRoom {
		return errors.New("the base of a redo log is too long")
	}
	if _, err := l.f.WriteAt(raw, int64(h.number%2)*headRoom); err != nil {
		return err
	}
	l.head, l.at, l.unsynced = h, start, true
	return nil
}

// End turns the log off: the file was synced and stands for itself. This is
// durable when End returns.
func (l *Log) End(salt []byte) error {
	if err := l.Begin(nil, salt); err != nil {
		return err
	}
	return l.Sync()
}

// Sync makes the present head durable.
func (l *Log) Sync() error {
	if !l.unsynced {
		return nil
	}
	if err := syncData(l.f); err != nil {
		return err
	}
	l.unsynced = false
	return nil
}

// Fits reports whether a payload of so many bytes has room behind the others.
func (l *Log) Fits(n int) bool { return l.at+frontLen+int64(n) <= l.limit }

// Holds reports whether a payload of so many bytes has room in an empty log.
func (l *Log) Holds(n int) bool { return start+frontLen+int64(n) <= l.limit }

// Append adds a record, which is durable when Append returns. The log must be on.
func (l *Log) Append(r Record) error {
	if !l.Fits(len(r.Payload)) {
		return ErrFull
	}
	l.buf = l.head.record(l.buf[:0], r)
	if _, err := l.f.WriteAt(l.buf, l.at); err != nil {
		return err
	}
	if err := syncData(l.f); err != nil {
		return err
	}
	l.at += int64(len(l.buf))
	l.unsynced = false
	return nil
}

// record encodes a record.
func (h head) record(buf []byte, r Record) []byte {
	buf = binary.LittleEndian.AppendUint32(buf, uint32(len(r.Payload)))
	buf = append(buf, 0, 0, 0, 0)
	buf = binary.LittleEndian.AppendUint64(buf, r.Commit)
	buf = append(buf, r.Payload...)
	binary.LittleEndian.PutUint32(buf[4:], sum(h.seed(), buf[:4], buf[8:]))
	return buf
}

func (h head) equal(other head) bool {
	return h.number == other.number && bytes.Equal(h.salt, other.salt) && bytes.Equal(h.base, other.base)
}

// seed is with what the checksums of the head's records begin.
func (h head) seed() uint32 {
	return sum(0, binary.LittleEndian.AppendUint64(nil, h.number), h.salt)
}

func sum(seed uint32, parts ...[]byte) uint32 {
	for _, p := range parts {
		seed = crc32.Update(seed, table, p)
	}
	return seed
}

// encode writes a head: magic, number, lengths of salt and base, checksum, salt,
// base.
func (h head) encode() []byte {
	raw := append(make([]byte, 0, headLen+len(h.salt)+len(h.base)), magic[:]...)
	raw = binary.LittleEndian.AppendUint64(raw, h.number)
	raw = binary.LittleEndian.AppendUint16(raw, uint16(len(h.salt)))
	raw = binary.LittleEndian.AppendUint16(raw, uint16(len(h.base)))
	raw = append(raw, 0, 0, 0, 0)
	raw = append(append(raw, h.salt...), h.base...)
	binary.LittleEndian.PutUint32(raw[20:], sum(0, raw[:20], raw[headLen:]))
	return raw
}

// decode reads a head; false when these bytes are none.
func decode(raw []byte) (head, bool) {
	if len(raw) < headLen || !bytes.Equal(raw[:8], magic[:]) {
		return head{}, false
	}
	salt, base := int(binary.LittleEndian.Uint16(raw[16:])), int(binary.LittleEndian.Uint16(raw[18:]))
	if headLen+salt+base > len(raw) {
		return head{}, false
	}
	rest := raw[headLen : headLen+salt+base]
	if binary.LittleEndian.Uint32(raw[20:]) != sum(0, raw[:20], rest) {
		return head{}, false
	}
	h := head{number: binary.LittleEndian.Uint64(raw[8:]), salt: bytes.Clone(rest[:salt])}
	if base > 0 {
		h.base = bytes.Clone(rest[salt:])
	}
	return h, true
}

// readHead reads the head that counts. A file without one is a log that is off.
func (l *Log) readHead() (head, error) {
	raw := l.heads[:]
	n, err := l.f.ReadAt(raw, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return head{}, err
	}
	var best head
	for at := 0; at < n; at += headRoom {
		if h, ok := decode(raw[at:min(n, at+headRoom)]); ok && h.number >= best.number {
			best = h
		}
	}
	return best, nil
}
