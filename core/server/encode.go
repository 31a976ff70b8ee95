package server

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"

	"github.com/casys-ai/pml/core"
	"github.com/danielgtaylor/huma/v2"
)

// encoded is the text of an answer.
type encoded []byte

// encode is a huma.Transformer that makes the text of an answer before anything
// of it is sent: huma writes the status first, and what cannot be encoded then
// would be half an answer. It panics, as huma's way to report an error writes,
// too; survived answers.
func encode(_ huma.Context, _ string, v any) (any, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(core.Errorf(core.CodeInternal, "an answer cannot be encoded: %w", err))
	}
	return encoded(b.Bytes()), nil
}

// writeEncoded writes what encode has made.
func writeEncoded(w io.Writer, v any) error {
	text, ok := v.(encoded)
	if !ok {
		return huma.DefaultJSONFormat.Marshal(w, v)
	}
	if _, err := w.Write(text); err != nil {
		panic(http.ErrAbortHandler) // who has not got all of it must see that
	}
	return nil
}
