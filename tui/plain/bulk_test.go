package plain_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/plain"
)

// open are the approvals of a type that wait.
func (p *talk) open(typ core.ApprovalType) []core.Approval {
	p.t.Helper()
	list, err := p.b.Approvals(p.t.Context(), false)
	if err != nil {
		p.t.Fatal(err)
	}
	return slices.DeleteFunc(list, func(a core.Approval) bool { return a.Type != typ })
}

// TestPlain_Together: all of a type are decided after they were read out and
// agreed to; what must be decided by itself is not.
func TestPlain_Together(t *testing.T) {
	t.Parallel()
	dialogue(t, nil, func(p *talk) {
		for len(p.open(core.ApproveTool)) < 2 { // the demo asks again from time to time
			p.after(10 * time.Second)
		}
		p.types("list")
		list := p.open(core.ApproveTool)
		said := p.types("all approve tool-permission")
		for _, a := range list {
			p.wants(said, "end of approval "+a.ID.Short())
		}
		p.wants(said, "confirm: type yes to approve all")
		p.wants(p.types("no"), "nothing was decided")
		if len(p.open(core.ApproveTool)) < len(list) {
			p.t.Fatal("decided without a yes")
		}
		p.types("all approve tool_permission")
		p.wants(p.types("yes"), "done: approved by you")
		for _, a := range list {
			if s := p.state(a.ID); s != core.ApprovalApproved {
				p.t.Errorf("%s is %s", a.ID.Short(), s)
			}
		}
		p.wants(p.types("all approve integrity"), "not possible: changed hashes are decided one by one")
		p.wants(p.types("all approve install-a-server"), "not possible", "high risk")
		p.wants(p.types("all approve nonsense"), "nothing of that type is waiting")
		p.wants(p.types("all integrity"), "say all approve or all deny")
		denied := p.open(core.ApproveIntegrity)
		p.wants(p.types("all deny integrity not mine"), "confirm: type yes to deny all 1")
		p.types("yes")
		if s := p.state(denied[0].ID); s != core.ApprovalDenied {
			p.t.Errorf("integrity is %s", s)
		}
	})
}

// TestPlain_Replan: tasks of a file are shown, agreed to and added.
func TestPlain_Replan(t *testing.T) {
	t.Parallel()
	files := map[string]string{"more.json": `{"tasks": [{"id": "extra", "tool": "s3:put_object"}]}`, "bad.json": "{"}
	dialogue(t, func(o *plain.Options) {
		o.ReadFile = func(name string) ([]byte, error) {
			if text, ok := files[name]; ok {
				return []byte(text), nil
			}
			return nil, core.Errorf(core.CodeInvalidArguments, "cannot read the file: %w", errors.Join(os.ErrNotExist))
		}
	}, func(p *talk) {
		page, err := p.b.Workflows(p.t.Context(), []core.RunState{core.RunRunning}, 1, "")
		if err != nil {
			p.t.Fatal(err)
		}
		id := page.Items[0].ID
		p.wants(p.types("replan "+id.Short()), "say replan")
		p.wants(p.types("replan "+id.Short()+" none.json"), "cannot read the file")
		p.wants(p.types("replan "+id.Short()+" bad.json"), "error:")
		p.wants(p.types("replan "+id.Short()+" more.json"), "new task extra: s3:put_object", "type yes to add 1 task")
		p.wants(p.types("yes"), "done: 1 task added")
		w, err := p.b.Workflow(p.t.Context(), id)
		if err != nil {
			p.t.Fatal(err)
		}
		if last := w.Layers[len(w.Layers)-1]; !strings.Contains(last.Tasks[0].ID, "extra") {
			p.t.Errorf("%+v", last)
		}
	})
}
