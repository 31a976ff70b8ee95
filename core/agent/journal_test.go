package agent_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core/agent"
	"github.com/casys-ai/pml/core/model"
)

// TestEncode: an answer comes back from a journal as it was, its blocks in the same
// bytes whatever has read and written the record meanwhile.
func TestEncode(t *testing.T) {
	t.Parallel()
	want := script("return 1 < 2")
	want.Blocks = json.RawMessage(`[ {"text": "a<b & \u00e9 é", "n": 1.0} ]`)
	want.Stop, want.RequestID = model.StopTools, "req_1"
	raw, err := agent.Encode(want)
	if err != nil {
		t.Fatal(err)
	}
	var through any
	if err := json.Unmarshal(raw, &through); err != nil {
		t.Fatal(err)
	}
	if raw, err = json.MarshalIndent(through, "", "\t"); err != nil {
		t.Fatal(err)
	}
	got, err := agent.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	if string(got.Blocks) != string(want.Blocks) {
		t.Errorf("%s, want %s", got.Blocks, want.Blocks)
	}
	for i, c := range got.Calls {
		if diff := cmp.Diff(want.Calls[i].Name, c.Name); diff != "" {
			t.Error(diff)
		}
	}
	if got.RequestID != "req_1" || got.Stop != model.StopTools || got.Usage == nil || got.Usage.Input != 10 {
		t.Errorf("%+v", got)
	}
}
