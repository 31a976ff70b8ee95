package route_test

import (
	"slices"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// TestLive: while somebody waits for a run of a server, its events are shown:
// of a new run all of them, of one that goes on those that come from then on.
func TestLive(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		do   func(b *both) error
		want []int64
	}{
		{"Execute", func(b *both) error {
			_, err := b.Execute(t.Context(), api.ExecuteRequest{Code: "x", Detach: true, Wait: -1})
			return err
		}, []int64{1, 2, 3}},
		{"Detached", func(b *both) error {
			_, err := b.Execute(t.Context(), api.ExecuteRequest{Code: "x", Detach: true})
			return err
		}, nil},
		{"Continue", func(b *both) error {
			_, err := b.Continue(t.Context(), api.ContinueRequest{ID: idRemote, Wait: -1})
			return err
		}, []int64{2, 3}},
		{"Retry", func(b *both) error {
			_, err := b.Retry(t.Context(), idRemote, core.Actor{}, -1)
			return err
		}, []int64{2, 3}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBoth(t, false, false)
			b.remote.add(core.Run{ID: idRemote})
			b.remote.answer = api.Result{Status: api.StatusComplete, WorkflowID: idRemote}
			b.remote.emit(1)
			b.remote.during = func() {
				b.remote.emit(2)
				b.remote.end()
			}
			if err := tt.do(b); err != nil || !slices.Equal(b.shown, tt.want) {
				t.Errorf("%v, shown %v, want %v", err, b.shown, tt.want)
			}
		})
	}
}
