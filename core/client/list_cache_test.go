//go:build unix

package client_test

import (
	"path/filepath"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/client"
)

// TestKnown: a list that says what it has said before is not decoded again, and one that
// says something else is.
func TestKnown(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	b := newBehind()
	t.Cleanup(serve(t, b, socket))
	c, err := open(t, client.Options{Socket: socket, Workspace: "/w", Via: core.ViaTUI})
	if err != nil {
		t.Fatal(err)
	}
	var last []core.Approval
	for n, again := range []bool{false, true, false, true} {
		if n == 2 {
			b.mu.Lock()
			b.waits = []core.Approval{{ID: anAppr, RunID: aRun, Description: "another"}}
			b.mu.Unlock()
		}
		list, err := c.Approvals(t.Context(), true)
		if err != nil || len(list) != 1 || (list[0].Description == "another") != (n >= 2) {
			t.Fatalf("%d: %+v, %v", n, list, err)
		}
		if got := last != nil && &list[0] == &last[0]; got != again {
			t.Errorf("%d: the same list: %v", n, got)
		}
		last = list
	}
}

// BenchmarkApprovals is the list of a thousand approvals that has not changed.
func BenchmarkApprovals(b *testing.B) {
	c, store := benchServer(b)
	for range 1000 {
		store.waits = append(store.waits, core.Approval{ID: anAppr, RunID: aRun, Context: []byte(`{"arguments":{"path":"a","content":"b"}}`)})
	}
	b.ReportAllocs()
	for b.Loop() {
		if list, err := c.Approvals(b.Context(), true); err != nil || len(list) != 1000 {
			b.Fatal(err)
		}
	}
}
