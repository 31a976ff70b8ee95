package model

import (
	"bytes"
	"encoding/json"
)

// body writes the JSON of a request member by member, so that answers of earlier calls
// stand in it with the bytes that they came with.
type body struct {
	text  []byte
	first bool // of the open list
}

func newBody(m Model) *body {
	b := &body{text: []byte(`{"model":`)}
	b.text = append(b.text, encoded(m.ID)...)
	b.member("stream", true)
	return b
}

// member writes a member.
func (b *body) member(name string, v any) {
	b.text = append(append(append(b.text, `,"`...), name...), `":`...)
	b.text = append(b.text, encoded(v)...)
}

// open begins a list, which is the last member.
func (b *body) open(name string) {
	b.text = append(append(append(b.text, `,"`...), name...), `":[`...)
	b.first = true
}

// element writes an element of the open list.
func (b *body) element(raw []byte) {
	if !b.first {
		b.text = append(b.text, ',')
	}
	b.first = false
	b.text = append(b.text, raw...)
}

// close ends the list and the request.
func (b *body) close() []byte { return append(b.text, "]}"...) }

// encoded is the JSON of a value of this package's own making.
func encoded(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return []byte("null") // a schema that is no JSON; the provider refuses it
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}
