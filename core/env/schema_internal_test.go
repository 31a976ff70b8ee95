package env

import (
	"reflect"
	"strings"
	"testing"
)

// Every key of the Go structs is read, and so is in the schema, and the other
// way round.
func TestFields_MatchStructs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value  any
		fields []field
	}{
		{layer{}, new(layer).fields(FromHome)},
		{serverPart{}, new(serverPart).fields()},
		{permissionsPart{}, new(permissionsPart).fields()},
		{approvalsPart{}, new(approvalsPart).fields(FromHome)},
		{routingPart{}, new(routingPart).fields()},
		{limitsPart{}, new(limitsPart).fields()},
		{ServerEntry{}, new(ServerEntry).fields()},
	} {
		typ := reflect.TypeOf(c.value)
		read := map[string]bool{}
		for _, f := range c.fields {
			read[f.name] = true
			if f.schema["description"] == "" {
				t.Errorf("%s.%s has no description", typ.Name(), f.name)
			}
		}
		for field := range typ.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "-" {
				continue
			}
			if !read[name] {
				t.Errorf("%s.%s is not read", typ.Name(), name)
			}
			delete(read, name)
		}
		for name := range read {
			t.Errorf("%s.%s is read, but no field holds it", typ.Name(), name)
		}
	}
}
