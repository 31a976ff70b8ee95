package flow

import (
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonc"
)

// Switched is the text of a flow's file with the flow enabled or disabled; all else
// stays as it is. A text that is no JSON is core.CodeInvalidConfig.
func Switched(text []byte, on bool) ([]byte, error) {
	doc, wrong := jsonc.ParseStrict(text, maxDepth)
	if wrong != nil {
		return nil, core.Errorf(core.CodeInvalidConfig, "the flow's file cannot be read: %s", strings.TrimSpace(wrong.Reason))
	}
	edit, err := doc.Set([]string{"enabled"}, on)
	if err != nil {
		return nil, err
	}
	out, _ := edit.Apply(text)
	return out, nil
}
