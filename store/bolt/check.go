package bolt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
)

// The layout of the two meta pages with which a bbolt file begins, after the
// 16 bytes of a page's header.
const (
	metaStart    = 16
	metaMagic    = 0xED0CDAED
	metaVersion  = 2
	metaHashed   = 56 // the bytes that the checksum covers
	metaLen      = metaHashed + 8
	metaRoot     = 16 // the page of the root
	metaHWM      = 40 // one past the last page
	metaTxid     = 48
	metaPageSize = 8
)

// checkSize refuses a file that is shorter than its own meta page says. bbolt
// maps the file into memory; to touch what is missing would kill the process.
// used says whether something was committed to it, so that it cannot be empty.
func checkSize(f *os.File, used func() bool) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	if size == 0 {
		if used() {
			return &damage{reason: "the file is empty although it was written before"}
		}
		return nil
	}
	m, err := readMeta(f, size)
	if err != nil {
		return err
	}
	if need := int64(m.pages) * int64(m.pageSize); need < 0 || size < need {
		return &damage{reason: fmt.Sprintf("the file has %d bytes and must have %d: it was cut off", size, need)}
	}
	return nil
}

type meta struct {
	pageSize uint32
	root     uint64
	pages    uint64
	txid     uint64
}

// readMeta returns the newest valid meta page.
func readMeta(f *os.File, size int64) (meta, error) {
	first, ok := metaAt(f, 0)
	page := int64(os.Getpagesize())
	if ok {
		page = int64(first.pageSize)
	}
	second, ok2 := metaAt(f, page)
	for try := int64(1024); !ok && !ok2 && try <= 64<<10 && try < size; try *= 2 {
		second, ok2 = metaAt(f, try)
	}
	switch {
	case ok && (!ok2 || first.txid > second.txid):
		return first, nil
	case ok2:
		return second, nil
	}
	return meta{}, &damage{reason: "it is not a pml database: both of its first pages are invalid"}
}

func metaAt(f *os.File, page int64) (meta, bool) {
	var b [metaLen]byte
	if _, err := f.ReadAt(b[:], page+metaStart); err != nil && !errors.Is(err, io.EOF) {
		return meta{}, false
	}
	return parseMeta(b[:])
}

// parseMeta reads a meta; false when these bytes are none.
func parseMeta(b []byte) (meta, bool) {
	// bbolt writes in the machine's byte order.
	ne := binary.NativeEndian
	h := fnv.New64a()
	_, _ = h.Write(b[:metaHashed])
	if ne.Uint32(b) != metaMagic || ne.Uint32(b[4:]) != metaVersion || ne.Uint64(b[metaHashed:]) != h.Sum64() {
		return meta{}, false
	}
	return meta{pageSize: ne.Uint32(b[metaPageSize:]), root: ne.Uint64(b[metaRoot:]), pages: ne.Uint64(b[metaHWM:]), txid: ne.Uint64(b[metaTxid:])}, true
}
