package route_test

import (
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// TestHalt halts and resumes both halves; what one of them cannot do does not keep the
// other from it, and is said.
func TestHalt(t *testing.T) {
	t.Parallel()
	f := newBoth(t, true, false)
	list, err := f.HaltCalls(t.Context(), core.Actor{Who: "ann"}, "enough")
	if err != nil || len(list) != 2 || len(f.local.halts) != 1 || len(f.remote.halts) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	if list, err = f.Halts(t.Context()); err != nil || len(list) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
	if list, err = f.ResumeCalls(t.Context(), api.ResumeRequest{}); err != nil || len(list) != 2 || len(f.local.halts)+len(f.remote.halts) > 0 {
		t.Errorf("%+v, %v", list, err)
	}
	f.remote.down = core.Errorf(core.CodeServerUnreachable, "it is away")
	list, err = f.HaltCalls(t.Context(), core.Actor{Who: "ann"}, "enough")
	if len(list) != 1 || len(f.local.halts) != 1 || core.CodeOf(err) != core.CodeServerUnreachable || !strings.Contains(err.Error(), "of this machine are halted, those of the server are not") {
		t.Errorf("%+v, %v", list, err)
	}
}
