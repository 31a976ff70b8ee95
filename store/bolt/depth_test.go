package bolt

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
)

// What is nested too deeply to be read is refused, and is no damage where an
// older pml has kept it.
func TestCodec_Depth(t *testing.T) {
	t.Parallel()
	deep := func(n int) json.RawMessage {
		return json.RawMessage(strings.Repeat("[", n) + strings.Repeat("]", n))
	}
	type header struct {
		V json.RawMessage `json:"v"`
	}
	if _, err := encodeRow(header{deep(9990)}); core.CodeOf(err) != core.CodeInvalidArguments {
		t.Errorf("a deep row: %v", err)
	}
	row, err := encodeRow(header{deep(core.MaxDepth)})
	if err != nil {
		t.Fatal(err)
	}
	if err := decodeRow(row, &header{}); err != nil {
		t.Error(err)
	}
	var d *damage
	old := []byte(`{"v":` + string(deep(10_001)) + `}`)
	if err := unmarshal(old, &header{}); err == nil || errors.As(err, &d) {
		t.Errorf("an old row: %v", err)
	}
	if err := unmarshal([]byte(`{"v":`), &header{}); !errors.As(err, &d) {
		t.Errorf("half a row: %v", err)
	}
}
