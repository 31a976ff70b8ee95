package bolt

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// A row is a JSON header followed by parts: the arguments, results and
// contexts that belong to it. They are kept as the bytes that they came as, so
// that a large result is never encoded or decoded on its way.

// part is a value that lies in the row or, when it is large, in a blob.
type part struct {
	data []byte // nil with blob set, or when there is no value
	blob *blobRef
}

// blobRef names a blob of a run.
type blobRef struct {
	sum  [32]byte
	size uint64
}

func (r blobRef) name() string { return hex.EncodeToString(r.sum[:]) }

const (
	partNone   = 0
	partInline = 1
	partBlob   = 2
)

// encodeRow encodes a header and its parts.
func encodeRow(header any, parts ...part) ([]byte, error) {
	h, err := store.Encode(header)
	if err != nil {
		return nil, err
	}
	n := len(h) + 16
	for _, p := range parts {
		n += len(p.data) + 48
	}
	b := make([]byte, 0, n)
	b = append(binary.AppendUvarint(b, uint64(len(h))), h...)
	for _, p := range parts {
		b = appendPart(b, p)
	}
	return b, nil
}

func appendPart(b []byte, p part) []byte {
	switch {
	case p.blob != nil:
		b = append(b, partBlob)
		b = binary.AppendUvarint(b, p.blob.size)
		return append(b, p.blob.sum[:]...)
	case p.data == nil:
		return append(b, partNone)
	}
	b = append(b, partInline)
	b = binary.AppendUvarint(b, uint64(len(p.data)))
	return append(b, p.data...)
}

// decodeRow decodes a row; the parts are copies. Parts that a newer pml added
// are left out.
func decodeRow(row []byte, header any, parts ...*part) error {
	h, rest, err := cutBytes(row)
	if err != nil {
		return err
	}
	if err := unmarshal(h, header); err != nil {
		return err
	}
	for _, p := range parts {
		if *p, rest, err = cutPart(rest); err != nil {
			return err
		}
	}
	return nil
}

func cutPart(b []byte) (p part, rest []byte, err error) {
	if len(b) == 0 || b[0] == partNone {
		return part{}, b[min(1, len(b)):], nil
	}
	switch b[0] {
	case partInline:
		data, rest, err := cutBytes(b[1:])
		return part{data: append([]byte{}, data...)}, rest, err
	case partBlob:
		size, n := binary.Uvarint(b[1:])
		if n <= 0 || len(b) < 1+n+32 {
			break
		}
		p.blob = &blobRef{size: size}
		copy(p.blob.sum[:], b[1+n:])
		return p, b[1+n+32:], nil
	}
	return part{}, nil, errRow
}

var errRow = &damage{reason: "a row is cut off or not a row"}

// cutBytes cuts bytes with their length before them off.
func cutBytes(b []byte) (data, rest []byte, err error) {
	size, n := binary.Uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) {
		return nil, nil, errRow
	}
	end := n + int(size)
	return b[n:end], b[end:], nil
}

// copies collects values of a transaction, to be decoded after its lock is
// given back.
type copies [][]byte

func (c *copies) add(v []byte) { *c = append(*c, bytes.Clone(v)) }

func unmarshal(raw []byte, v any) error {
	if err := json.Unmarshal(raw, v); err != nil {
		if store.TooDeep(raw) { // as an older pml kept it: nothing is damaged
			return core.Errorf(core.CodeStoreFailed, "a row cannot be read: it is nested too deeply; nothing is damaged")
		}
		return &damage{reason: "a row cannot be read: " + err.Error()}
	}
	return nil
}
