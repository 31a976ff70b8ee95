package flow_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/casys-ai/pml/core/flow"
)

// A flow without faults fits the schema, so an editor never objects to it.
func TestSchema(t *testing.T) {
	t.Parallel()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(flow.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("flow.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("flow.json")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string][]byte{}
	for _, tmpl := range flow.Templates() {
		texts[tmpl.Name] = tmpl.Flow("x", "x", time.UnixMilli(1))
	}
	files, err := filepath.Glob("testdata/faults/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if texts[file], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	refused := 0
	for name, text := range texts {
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		fits := err == nil && schema.Validate(v) == nil
		faults := flow.Parse(map[string][]byte{"f.json": text}, false).Flows[0].Faults
		if len(faults) == 0 && !fits {
			t.Errorf("%s has no faults and does not fit: %v", name, schema.Validate(v))
		}
		if !fits {
			refused++
		}
	}
	if refused < 5 {
		t.Errorf("the schema refuses %d files", refused)
	}
}
