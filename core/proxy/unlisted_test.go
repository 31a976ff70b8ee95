package proxy_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/proxy"
)

// That there is no tool of a name is said once every server has listed its tools.
// Until then the server is what is missing, and the call can be made again.
func TestCall_Unlisted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		late := server("late", "slow_tool")
		late.Known = false
		h := newHalf(remembered(server("quick", "fast_tool")), late)
		h.hold = make(chan struct{})
		g := proxy.New(proxy.Options{Half: h})
		defer g.Close()
		want := func(tool string, code core.Code, part string) {
			t.Helper()
			_, err := g.Call(t.Context(), api.OfferedCall{Name: tool})
			if core.CodeOf(err) != code || code != "" && !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v", tool, err)
			}
			if unlisted := code == core.CodeServerUnreachable; err != nil && core.AsError(err).Retryable != unlisted {
				t.Errorf("%s: retryable %t, want %t: %v", tool, !unlisted, unlisted, err)
			}
		}
		want("fast_tool", "", "")
		want("slow_tool", core.CodeServerUnreachable, "late (it has not answered yet)")
		close(h.hold)
		synctest.Wait()
		want("slow_tool", "", "")
		want("no_tool", core.CodeNoSuchTool, "there is no tool no_tool")
	})
}

// A server that cannot be started may have any tool.
func TestCall_UnlistedFailed(t *testing.T) {
	t.Parallel()
	bad := server("bad")
	bad.Known, bad.Problems = false, []core.Fault{{Path: "bad", Message: "it needs an approval"}}
	g := open(t, newHalf(bad))
	_, err := g.Call(t.Context(), api.OfferedCall{Name: "x"})
	if core.CodeOf(err) != core.CodeServerUnreachable || !strings.Contains(err.Error(), "bad (it needs an approval)") {
		t.Error(err)
	}
}
