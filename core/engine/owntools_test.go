package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/engine/enginetest"
)

// TestOwnTools: the pseudo-tools under which pml journals what it does itself are nobody's to
// call: no script and no single call asks a model with them, starts a run or reads one by its
// id, and the caller is told so. (A DAG that names one is not valid.)
func TestOwnTools(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.process()
	other := b.code(p, `return "a secret";`, core.RunOptions{})
	b.Complete(other, `"a secret"`)
	for tool, args := range map[string]string{
		"run":   fmt.Sprintf(`{"workflow_id":%q,"intent":"x","code":"return 1"}`, other.ID),
		"model": `{"model":"m","messages":1}`,
		"code":  `{"code":"return 1"}`,
		"sleep": `{"ms":1}`,
	} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			name := "pml:" + tool
			s := b.Wait(b.code(p, fmt.Sprintf(`const name = [%q].pop(); return await mcp.pml[name](%s);`, tool, args), core.RunOptions{}), engine.Ended)
			if s.Run.State != core.RunFailed || s.Run.Error.Code != core.CodeNoSuchTool || !strings.Contains(s.Run.Error.Message, name) {
				t.Errorf("%s %v %s", s.Run.State, s.Run.Error, s.Run.Result)
			}
			one := engine.One{Run: core.Run{ID: newID(), Workspace: "/w", Kind: core.KindDAG, CreatedAt: time.Now()}, Task: enginetest.Ref("t1", name, args), Verdict: engine.Verdict{Known: true}}
			if _, err := p.RunOne(t.Context(), one); core.CodeOf(err) != core.CodeNoSuchTool {
				t.Errorf("a single call: %v", err)
			}
			records, err := p.st.Journal(t.Context(), s.Run.ID, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range records {
				if engine.ChildOf(s.Run.ID, r) != "" || r.Tool == name {
					t.Errorf("it is journaled as a call of pml's own: %+v", r)
				}
			}
		})
	}
	if got := b.Host.Called(); len(got) > 0 {
		t.Errorf("called %v", got)
	}
}
