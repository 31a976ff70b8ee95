package service

import (
	"context"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// numbered has events up to a number; those before first were removed.
type numbered struct {
	store.Reader
	first, last int64
	reads       int
}

func (n *numbered) Events(_ context.Context, f store.EventFilter) ([]core.Event, error) {
	n.reads++
	if f.After >= n.last {
		return nil, nil
	}
	return []core.Event{{Seq: max(f.After+1, n.first)}}, nil
}

// The newest event is found with few reads, however many there are, and with
// fewer the next time.
func TestNewest_Last(t *testing.T) {
	t.Parallel()
	for _, last := range []int64{0, 1, 2, 3, 4, 5, 7, 8, 9, 100, 1023, 1024, 1025, 5_000_000} {
		r := &numbered{first: last / 2, last: last}
		var n newest
		for _, more := range []int64{0, 0, 1, 2, 50} {
			r.last += more
			r.reads = 0
			got, err := n.last(t.Context(), r)
			if err != nil || got != r.last {
				t.Errorf("%v %d, want %d", err, got, r.last)
			}
		}
		if r.reads > 15 {
			t.Errorf("%d reads for 50 more", r.reads)
		}
	}
}
