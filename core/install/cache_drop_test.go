package install_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
)

// Definitions and hashes are kept as long as they are of use now and then.
func TestCollect_ForgetsWhatIsOfNoUse(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	home, program := t.TempDir(), filepath.Join(t.TempDir(), "run.sh")
	if err := put(filepath.Dir(program), "run.sh", "#!/bin/sh\n"); err != nil {
		t.Fatal(err)
	}
	start := time.Now().Add(time.Hour)
	used, unused := core.Tool{Name: "used"}, core.Tool{Name: "unused"}
	keep := func(at time.Time, tools ...core.Tool) {
		t.Helper()
		in := later(home, at)
		for _, tool := range tools {
			if err := in.Definitions.Keep(tool); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := in.Files.HashFile(program); err != nil {
			t.Fatal(err)
		}
	}
	count := func(folder string) int {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(home, folder, "*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	collect := func(at time.Time, tools, hashes int) {
		t.Helper()
		if got, err := later(home, at).Collect(t.Context()); err != nil || len(got) > 0 {
			t.Error(got, err)
		}
		if count(".tools") != tools || count(".hashed") != hashes {
			t.Errorf("after %s: %d definitions, %d hashes; want %d, %d", at.Sub(start), count(".tools"), count(".hashed"), tools, hashes)
		}
	}
	keep(start, used, unused)
	keep(start.Add(100*day), used)
	collect(start.Add(170*day), 2, 1)
	collect(start.Add(200*day), 1, 1)
	keep(start.Add(250*day), used)
	collect(start.Add(400*day), 1, 1)
	collect(start.Add(500*day), 0, 0)
	keep(start.Add(500*day), used) // and nothing is amiss
}
