// Package redo keeps a log of what was committed to a file since that file was
// last synced. To make a commit durable, one sync of this log is enough: it is
// short and written in order, while the file itself has many pages in many places.
//
// After a loss of power the file may hold any part of what was written to it
// since its base, the state in which it was synced. Who opens it then puts the
// base back and makes the records again. While the machine runs nobody needs the
// base: the system has what was written, whatever became of who wrote it.
//
// A record comes before what it tells of: a commit of which the file has nothing
// yet, because who made it was killed, is made again by who opens the file next.
//
// The log is a file of its own. In front stand two heads, in turn, each in a page
// of its own; the one with the higher number counts. Behind them are two halves
// for records, which heads use in turn, so that those of the head before are there
// until nobody needs them. What belongs to another head does not fit its salt: a
// log begins anew by a head alone, and its space is used again.
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
	headRoom = 4096         // of each head, and what a half is a multiple of
	start    = 2 * headRoom // of the records
	headLen  = 8 + 8 + 8 + 2 + 2 + 4
	frontLen = 4 + 4 + 8 + 8 // of a record: length, checksum, commit, after

	farthest = 1 << 40 // that records begin

	// MaxBase is the longest description of a base, with its salt, in bytes.
	MaxBase = headRoom - headLen
)

var magic = [8]byte{'p', 'm', 'l', 'r', 'e', 'd', 'o', '2'}

var table = crc32.MakeTable(crc32.Castagnoli)

// ErrFull says that a record does not fit behind the others.
var ErrFull = errors.New("the redo log is full")

// Record is what one commit did.
type Record struct {
	Commit  uint64 // its number; a log holds those of consecutive numbers
	After   uint64 // a checksum of the state that it follows
	Payload []byte
}

// Log is an open log. It is not safe for concurrent use.
type Log struct {
	path string
	half int64 // bytes for the records of one head
	f    *os.File
	is   os.FileInfo // of f
	head head
	at   int64  // where the next record goes
	last uint64 // the commit that it follows; 0 while that is not known
	// unsynced is set while a head is written that no sync has made durable.
	unsynced bool
	buf      []byte      // of a record
	heads    [start]byte // as they were read
	sync     func(*os.File) error
}

// head says to what the records belong. Without a base the log is off.
type head struct {
	number uint64
	from   int64 // where the records begin
	salt   []byte
	base   []byte
}

// Open opens the log at path, or creates an empty one that is off. The file has at
// most limit bytes, which must be the same for all who use it.
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
	half := max(0, limit-start) / 2 / headRoom * headRoom
	return &Log{path: path, half: half, f: f, is: info, at: start, head: head{from: start}, sync: syncData}, nil
}

// syncDir makes the name of a new file durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Reserve takes the place on the disk that the log may need, where the file system
// can.
func (l *Log) Reserve() error { return Reserve(l.f, start+2*l.half) }

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
	l.head, l.at, l.last = h, h.from, 0
	return h.base, nil
}

// Records reads the records that belong to the head, in order: the first is that
// of the commit after the given one, and they are at most so many. What cannot be
// read as one of them ends them. The next Append follows them.
func (l *Log) Records(after uint64, most int) ([]Record, error) {
	l.at, l.last = l.head.from, after
	list, err := l.Rest(most)
	for _, r := range list {
		l.follow(r)
	}
	return list, err
}

// Rest reads the records behind those that are known, at most so many, and leaves
// them there.
func (l *Log) Rest(most int) ([]Record, error) {
	at, last := l.at, l.last
	defer func() { l.at, l.last = at, last }()
	var list []Record
	for len(list) < most {
		r, ok, err := l.next()
		if err != nil || !ok {
			return list, err
		}
		l.follow(r)
		list = append(list, r)
	}
	return list, nil
}

// Follows reports whether the next record is known to be that of the commit after
// the given one.
func (l *Log) Follows(commit uint64) bool { return l.last == commit && commit > 0 }

func (l *Log) follow(r Record) {
	l.at += frontLen + int64(len(r.Payload))
	l.last = r.Commit
}

// next reads the record behind those that are known; false when there is none.
func (l *Log) next() (Record, bool, error) {
	at := l.at
	var front [frontLen]byte
	if ok, err := l.read(front[:], at); !ok {
		return Record{}, false, err
	}
	r := Record{Commit: binary.LittleEndian.Uint64(front[8:]), After: binary.LittleEndian.Uint64(front[16:])}
	size := int64(binary.LittleEndian.Uint32(front[:]))
	if size == 0 || r.Commit != l.last+1 {
		return Record{}, false, nil
	}
	if info, err := l.f.Stat(); err != nil || at+frontLen+size > info.Size() {
		return Record{}, false, err
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
	there, err := os.Stat(l.path)
	return err == nil && os.SameFile(l.is, there)
}

// Same reports whether the file has the head that this log knows: whether nobody
// else has begun it anew.
func (l *Log) Same() bool {
	h, err := l.readHead()
	return err == nil && h.equal(l.head)
}

// On reports whether the log has a base.
func (l *Log) On() bool { return l.head.base != nil }

// Empty reports whether the log has no records that Append has added or Records
// has found.
func (l *Log) Empty() bool { return l.at == l.head.from }

// Begin gives the log a new base and no records. The file must have been synced
// in this state. The salt must be one that no earlier head had and that nobody
// can guess. The new base is durable with the first record, or with Sync; until
// then the old one may count, so nothing of the old base may be overwritten.
func (l *Log) Begin(base, salt []byte) error { return l.begin(l.after(base, salt)) }

// BeginWith gives the log a new base and one record, of a commit that the file
// does not have. At any moment one of the heads counts to which that record
// belongs. It is durable when BeginWith returns.
func (l *Log) BeginWith(base, salt []byte, r Record) error {
	h := l.after(base, salt)
	raw := h.record(nil, r)
	if int64(len(raw)) > l.half {
		return ErrFull
	}
	// Before the other half is written the present head has to be durable. It is
	// written again, for who wrote it may have been told that it cannot be synced.
	if err := l.write(l.head); err != nil {
		return err
	}
	if err := l.Sync(); err != nil {
		return err
	}
	if _, err := l.f.WriteAt(raw, h.from); err != nil {
		return err
	}
	if err := l.sync(l.f); err != nil {
		return err
	}
	if err := l.begin(h); err != nil {
		return err
	}
	l.follow(r)
	return l.Sync()
}

// after is the head that comes after the present one.
func (l *Log) after(base, salt []byte) head {
	h := head{number: l.head.number + 1, from: start, salt: salt, base: base}
	if l.head.number > 0 && l.head.from == start {
		h.from += l.half
	}
	return h
}

func (l *Log) begin(h head) error {
	if err := l.write(h); err != nil {
		return err
	}
	l.head, l.at, l.last = h, h.from, 0
	return nil
}

func (l *Log) write(h head) error {
	raw := h.encode()
	if len(raw) > headRoom {
		return errors.New("the base of a redo log is too long")
	}
	l.unsynced = true
	_, err := l.f.WriteAt(raw, int64(h.number%2)*headRoom)
	return err
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
	if err := l.sync(l.f); err != nil {
		return err
	}
	l.unsynced = false
	return nil
}

// Fits reports whether a payload of so many bytes has room behind the others.
func (l *Log) Fits(n int) bool { return l.at+frontLen+int64(n) <= l.head.from+l.half }

// Holds reports whether a payload of so many bytes has room in an empty log.
func (l *Log) Holds(n int) bool { return frontLen+int64(n) <= l.half }

// Append adds a record, which is durable when Append returns. After an error there
// is none. The log must be on.
func (l *Log) Append(r Record) error {
	if !l.Fits(len(r.Payload)) {
		return ErrFull
	}
	l.buf = l.head.record(l.buf[:0], r)
	_, err := l.f.WriteAt(l.buf, l.at)
	if err == nil {
		err = l.sync(l.f)
	}
	if err != nil { // nobody may find it
		_, _ = l.f.WriteAt(make([]byte, frontLen), l.at)
		return err
	}
	l.follow(r)
	l.unsynced = false
	return nil
}

// record encodes a record.
func (h head) record(buf []byte, r Record) []byte {
	buf = binary.LittleEndian.AppendUint32(buf, uint32(len(r.Payload)))
	buf = append(buf, 0, 0, 0, 0)
	buf = binary.LittleEndian.AppendUint64(buf, r.Commit)
	buf = binary.LittleEndian.AppendUint64(buf, r.After)
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

// encode writes a head: magic, number, begin of the records, lengths of salt and
// base, checksum, salt, base.
func (h head) encode() []byte {
	raw := append(make([]byte, 0, headLen+len(h.salt)+len(h.base)), magic[:]...)
	raw = binary.LittleEndian.AppendUint64(raw, h.number)
	raw = binary.LittleEndian.AppendUint64(raw, uint64(h.from))
	raw = binary.LittleEndian.AppendUint16(raw, uint16(len(h.salt)))
	raw = binary.LittleEndian.AppendUint16(raw, uint16(len(h.base)))
	raw = append(raw, 0, 0, 0, 0)
	raw = append(append(raw, h.salt...), h.base...)
	binary.LittleEndian.PutUint32(raw[28:], sum(0, raw[:28], raw[headLen:]))
	return raw
}

// decode reads a head; false when these bytes are none.
func decode(raw []byte) (head, bool) {
	if len(raw) < headLen || !bytes.Equal(raw[:8], magic[:]) {
		return head{}, false
	}
	salt, base := int(binary.LittleEndian.Uint16(raw[24:])), int(binary.LittleEndian.Uint16(raw[26:]))
	if headLen+salt+base > len(raw) {
		return head{}, false
	}
	rest := raw[headLen : headLen+salt+base]
	if binary.LittleEndian.Uint32(raw[28:]) != sum(0, raw[:28], rest) {
		return head{}, false
	}
	h := head{number: binary.LittleEndian.Uint64(raw[8:]), from: int64(binary.LittleEndian.Uint64(raw[16:])), salt: bytes.Clone(rest[:salt])}
	if h.from < start || h.from > farthest {
		return head{}, false
	}
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
	best := head{from: start}
	for at := 0; at < n; at += headRoom {
		if h, ok := decode(raw[at:min(n, at+headRoom)]); ok && h.number >= best.number {
			best = h
		}
	}
	return best, nil
}
