package route_test

import (
	"context"
	"errors"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/route"
)

// hearing is a half that lets hosts decide about one run.
type hearing struct {
	*half
	run core.ID
}

func (h *hearing) HostMayDecide(_ context.Context, a core.Approval) bool { return a.RunID == h.run }

// The half that has the run says whether a host's answer counts; one that does
// not know lets the question be put.
func TestHostMayDecide(t *testing.T) {
	t.Parallel()
	const other core.ID = "33333333-0000-4000-8000-000000000003"
	local, remote := &hearing{newHalf("here"), idLocal}, newHalf("there")
	local.add(core.Run{ID: idLocal}, core.Run{ID: other})
	remote.add(core.Run{ID: idRemote})
	b := route.New(route.Options{
		Local:   local,
		Connect: func(context.Context, bool) (route.Remote, error) { return remote, nil },
	})
	for id, want := range map[core.ID]bool{idLocal: true, other: false, idRemote: true} {
		if got := b.HostMayDecide(t.Context(), core.Approval{RunID: id}); got != want {
			t.Errorf("%s: %v", id, got)
		}
	}
	broken := route.New(route.Options{
		Local:   local,
		Connect: func(context.Context, bool) (route.Remote, error) { return nil, errors.New("gone") },
	})
	if broken.HostMayDecide(t.Context(), core.Approval{RunID: idRemote}) {
		t.Error("nobody knows whose run it is, and it hears")
	}
}
