package upstream_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/upstream"
)

func TestValidator_Faults(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"object","properties":{"yes":{"type":"boolean"},"n":{"type":"integer","minimum":1}},"required":["yes"],"additionalProperties":false}`
	tests := []struct {
		name, schema, value string
		want                []core.Fault
	}{
		{"Valid", schema, `{"yes":true,"n":3}`, nil},
		{"AllTogether", schema, `{"yes":"false","n":0,"x":1}`, []core.Fault{
			{Message: "additional properties 'x' not allowed"},
			{Path: "/n", Message: "minimum: got 0, want 1"},
			{Path: "/yes", Message: "got string, want boolean"},
		}},
		{"NotJSON", schema, `{`, []core.Fault{{Message: "not valid JSON: unexpected EOF"}}},
		{"Huge", schema, `{"yes":true,"n":1e999999}`, []core.Fault{{Message: "a number is out of range: 1e999999"}}},
		{"NoSchema", ``, `{}`, []core.Fault{{Message: "the schema cannot be used: there is none"}}},
	}
	v := new(upstream.Validator)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := v.Faults(json.RawMessage(tt.schema), json.RawMessage(tt.value))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}
