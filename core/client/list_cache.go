package client

import (
	"bytes"
	"encoding/json"
	"hash/maphash"
	"net/url"
	"sync"

	"github.com/casys-ai/pml/core/api"
)

// known are the last answers to what a terminal asks every few seconds: the approvals,
// and the runs that go on. One of the same bytes is not decoded again. Whoever gets a
// list shares it with others, and changes nothing in it.
type known struct {
	mu    sync.Mutex
	seed  maphash.Seed
	lists map[string]knownList // by path and query

	bodies sync.Pool // of *bytes.Buffer: a large list does not grow a new one each time
}

// knownList is an answer as bytes and decoded.
type knownList struct {
	sum   uint64
	size  int
	value any
}

// pageOf is where a list is decoded to, or taken from if it is known.
type pageOf[T any] struct {
	known *known
	key   string
	api.Page[T]
}

func knownPage[T any](c *connection, path string, query url.Values) *pageOf[T] {
	return &pageOf[T]{known: &c.known, key: path + "?" + query.Encode()}
}

// decode takes the bytes of an answer.
func (p *pageOf[T]) decode(raw []byte) error {
	k := p.known
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.lists == nil {
		k.seed, k.lists = maphash.MakeSeed(), map[string]knownList{}
	}
	sum := maphash.Bytes(k.seed, raw)
	if last, ok := k.lists[p.key]; ok && last.sum == sum && last.size == len(raw) {
		p.Page, ok = last.value.(api.Page[T])
		if ok {
			return nil
		}
	}
	if err := json.Unmarshal(raw, &p.Page); err != nil {
		return err
	}
	k.lists[p.key] = knownList{sum, len(raw), p.Page}
	return nil
}

// decoder is what decodes an answer itself.
type decoder interface{ decode(raw []byte) error }

// decode decodes an answer.
func decode(raw []byte, out any) error {
	if d, ok := out.(decoder); ok {
		return d.decode(raw)
	}
	return json.Unmarshal(raw, out)
}

// maxKept is how large a buffer for answers may be that is kept for the next one.
const maxKept = 8 << 20

// body is an empty buffer for an answer; kept gives it back.
func (k *known) body() *bytes.Buffer {
	if b, ok := k.bodies.Get().(*bytes.Buffer); ok {
		b.Reset()
		return b
	}
	return &bytes.Buffer{}
}

func (k *known) kept(b *bytes.Buffer) {
	if b.Cap() <= maxKept {
		k.bodies.Put(b)
	}
}
