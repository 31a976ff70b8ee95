package page

import (
	"bytes"
	_ "embed" // of layout and style
	"encoding/json"
	"html/template"
	"io"
	"sync"

	"github.com/casys-ai/pml/core"
)

// The layout and the style of a file are part of its format: see ExportVersion.
var (
	//go:embed templates/export1.html
	exportLayout string
	//go:embed templates/export1.css
	exportStyle string
)

var exportTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("export").Parse(exportLayout))
})

// HTML is the file of a run.
func (e Export) HTML() ([]byte, error) {
	raw, err := e.encoded()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = e.layOut(&b, raw)
	return b.Bytes(), err
}

// layOut writes the file with the data as it was written once.
func (e Export) layOut(w io.Writer, raw json.RawMessage) error {
	err := exportTemplate().Execute(w, map[string]any{
		"E": e, "Decisions": e.decisions(), "At": stamp(e.ExportedAt),
		"Policy": "default-src 'none'; style-src " + hashOf(exportStyle) + "; base-uri 'none'; form-action 'none'",
		"Style":  template.CSS(exportStyle), // our own
		"Data":   template.JS(raw),          // of encoding/json: without <, > and &
	})
	if err != nil {
		return core.Errorf(core.CodeInternal, "the page of the run cannot be made: %w", err)
	}
	return nil
}
