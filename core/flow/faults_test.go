package flow_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core/flow"
)

var update = flag.Bool("update", false, "write the golden files")

// Each file of testdata/faults has one kind of fault; what is said of it stands beside
// it.
func TestFaults(t *testing.T) {
	t.Parallel()
	const dir = "testdata/faults"
	manifest := `{"name":"cut","version":"1","script":"return","parameters":{"type":"object","properties":{"limit":{"type":"integer"}},"required":["limit"]}}`
	files, err := filepath.Glob(dir + "/*.json")
	if err != nil || len(files) < 30 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			name := filepath.Base(file)
			f := flow.Parse(map[string][]byte{name: text, "nodes/cut.json": []byte(manifest)}, false).Flows[0]
			var b strings.Builder
			for _, fault := range f.Faults {
				b.WriteString(fault.String() + "\n")
				if id := f.NodeOf(fault); id != "" && !strings.HasPrefix(fault.Message, "node "+id+": ") {
					t.Errorf("%s does not name %s", fault, id)
				}
			}
			golden := strings.TrimSuffix(file, ".json") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(b.String()), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), b.String()); d != "" {
				t.Error(d)
			}
			if len(f.Faults) > 0 != (name != "ok.json") {
				t.Errorf("%d faults", len(f.Faults))
			}
		})
	}
}
