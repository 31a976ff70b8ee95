package layout

import (
	"bytes"
	"encoding/json"

	"github.com/casys-ai/pml/core"
)

// Indent lays JSON out over lines; what is not JSON stays as it is.
func Indent(raw json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return core.Visible(string(raw), 0, true)
	}
	return b.String()
}

// Compact is JSON on one line, safe for a screen.
func Compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return core.Visible(string(raw), 0, false)
	}
	return core.Visible(b.String(), 0, false)
}
