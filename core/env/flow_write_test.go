package env_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/env"
)

// Of several who change the same text of a flow one writes, and the others are told: nobody's
// change is lost under another's.
func TestWriteFlow_AtOnce(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write(filepath.Join(b.home.Dir, "flows/modules/m.json"), `{"id": "mine", "nodes": []}`)
	const writers = 8
	for round := range 25 {
		was, err := os.ReadFile(filepath.Join(b.home.Dir, "flows/modules/m.json"))
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		errs := make([]error, writers)
		start := make(chan struct{})
		for i := range writers {
			cfg := b.load()
			all.Go(func() {
				<-start
				errs[i] = cfg.WriteFlow(env.FlowFile{Home: true, Name: "modules/m.json", Text: fmt.Appendf(nil, `{"id": "mine", "nodes": [], "label": "%d %d"}`, round, i), Was: was})
			})
		}
		close(start)
		all.Wait()
		wrote := 0
		for _, err := range errs {
			if err == nil {
				wrote++
			} else if core.CodeOf(err) != core.CodeInvalidArguments {
				t.Errorf("%v", err)
			}
		}
		if wrote != 1 {
			t.Fatalf("%d have written", wrote)
		}
	}
}
