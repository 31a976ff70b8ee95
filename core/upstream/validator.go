package upstream

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/casys-ai/pml/core"
)

// Validator checks JSON against JSON schemas, in the way in which arguments of
// tools are checked. It keeps compiled schemas. The zero value is ready.
type Validator struct{ schemas schemaCache }

// Usable says why a schema cannot be used, nothing when it can.
func (v *Validator) Usable(schema json.RawMessage) []core.Fault {
	if _, err := compile(schema); err != nil {
		return []core.Fault{{Message: "the schema cannot be used: " + core.Visible(err.Error(), 500, false)}}
	}
	return nil
}

// Faults says all that is wrong with a value, sorted by place, nothing when it
// is valid. A schema
// that does not compile is a fault too: it comes from pml, not from a server.
func (v *Validator) Faults(schema, value json.RawMessage) []core.Fault {
	var broken error
	compiled := v.schemas.get(schema, func(err error) { broken = err })
	if compiled == nil {
		if broken == nil {
			broken = errors.New("there is none")
		}
		return []core.Fault{{Message: "the schema cannot be used: " + broken.Error()}}
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return []core.Fault{{Message: "not valid JSON: " + err.Error()}}
	}
	if number, ok := hugeNumber(doc); ok {
		return []core.Fault{{Message: "a number is out of range: " + core.Visible(number, 40, false)}}
	}
	var invalid *jsonschema.ValidationError
	if err := compiled.Validate(doc); errors.As(err, &invalid) {
		all := faults(invalid)
		slices.SortFunc(all, func(a, b core.Fault) int {
			return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message))
		})
		return all
	} else if err != nil {
		return []core.Fault{{Message: "cannot be checked: " + err.Error()}}
	}
	return nil
}
