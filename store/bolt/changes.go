package bolt

import (
	"encoding/binary"
	"fmt"

	bbolt "go.etcd.io/bbolt"

	"github.com/casys-ai/pml/core"
)

// place is the way to a bucket: names from the root, of which empty ones at the
// end do not count.
type place [3][]byte

func top(name []byte) place { return place{name} }

// ofRun is a run's own bucket, or the part of it with a name.
func ofRun(id core.ID, part []byte) place { return place{bucketRun, []byte(id), part} }

// in is the bucket at the place; nil when there is none.
func (p place) in(tx *bbolt.Tx) *bbolt.Bucket {
	b := tx.Bucket(p[0])
	for _, name := range p[1:] {
		if b == nil || len(name) == 0 {
			return b
		}
		b = b.Bucket(name)
	}
	return b
}

// parent is the bucket in which the one at the place lies, and its name there.
// Only what lies in another one is created and dropped.
func (p place) parent() (place, []byte) {
	last := len(p) - 1
	for last > 0 && len(p[last]) == 0 {
		last--
	}
	name := p[last]
	p[last] = nil
	return p, name
}

// The kinds of changes, as the redo log has them: a number never changes its
// meaning.
const (
	changePut    byte = 1
	changeDelete byte = 2
	changeCreate byte = 3 // of a bucket
	changeDrop   byte = 4 // of a bucket
	changeCount  byte = 5 // of a bucket: its sequence number
)

// change is one thing that a transaction does to the file.
type change struct {
	kind       byte
	where      place
	key, value []byte
}

// make makes the change.
func (c change) make(tx *bbolt.Tx) error {
	at := c.where
	var name []byte
	if c.kind == changeCreate || c.kind == changeDrop {
		at, name = c.where.parent()
	}
	b := at.in(tx)
	if b == nil {
		return &damage{reason: fmt.Sprintf("there is no bucket %q", at)}
	}
	switch c.kind {
	case changePut:
		return b.Put(c.key, c.value)
	case changeDelete:
		return b.Delete(c.key)
	case changeCreate:
		_, err := b.CreateBucket(name)
		return err
	case changeDrop:
		return b.DeleteBucket(name)
	case changeCount:
		if len(c.value) == 8 {
			return b.SetSequence(binary.BigEndian.Uint64(c.value))
		}
	}
	return &damage{reason: fmt.Sprintf("there is no change of kind %d", c.kind)}
}

// changes are those of one transaction, in order, as the redo log has them: kind,
// three names, key and value, each behind its length.
type changes struct {
	raw []byte
	n   int
	// unknown is set when the transaction has made others besides.
	unknown bool
}

func (l *changes) add(c change) {
	l.n++
	l.raw = append(l.raw, c.kind)
	for _, part := range [...][]byte{c.where[0], c.where[1], c.where[2], c.key, c.value} {
		l.raw = append(binary.AppendUvarint(l.raw, uint64(len(part))), part...)
	}
}

// remake makes the changes of a record again.
func remake(tx *bbolt.Tx, raw []byte) error {
	for len(raw) > 0 {
		c := change{kind: raw[0]}
		raw = raw[1:]
		for _, part := range [...]*[]byte{&c.where[0], &c.where[1], &c.where[2], &c.key, &c.value} {
			n, used := binary.Uvarint(raw)
			if used <= 0 || n > uint64(len(raw)-used) {
				return &damage{reason: "a change in the redo log was cut off"}
			}
			*part, raw = raw[used:used+int(n):used+int(n)], raw[used+int(n):]
		}
		if err := c.make(tx); err != nil {
			return err
		}
	}
	return nil
}
