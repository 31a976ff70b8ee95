//go:build unix

package pmltest

import (
	"context"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// Runs are all runs, newest first.
func (m *Machine) Runs() []core.Run {
	m.T.Helper()
	var page api.Page[core.Run]
	m.OK("workflows", "ls", "--json").Decode(&page)
	return page.Items
}

// Audited counts the rows of the audit log about approvals of runs.
func (m *Machine) Audited(outcome core.ApprovalState) (n int) {
	m.T.Helper()
	var page api.Page[core.AuditRow]
	m.OK("audit", "ls", "--json").Decode(&page)
	for _, r := range page.Items {
		if r.RunID != "" && r.Outcome == outcome {
			n++
		}
	}
	return n
}

// Halfway is a program that counts a, waits in a call for a file, and counts b;
// kind is code or dag. args are those of execute.
func (m *Machine) Halfway(kind, tool, file string) (args []string) {
	m.T.Helper()
	if kind == "code" {
		return []string{"execute", "--code", fmt.Sprintf(`
			const a = await mcp.rec.inc({key: "a"});
			const w = await mcp.rec.%s({file: %q});
			const b = await mcp.rec.inc({key: "b"});
			return [a.count, w?.file ?? w, b.count];`, tool, file)}
	}
	return []string{"execute", m.Write("half.json", fmt.Sprintf(`{"tasks":[
		{"id":"a","tool":"rec:inc","arguments":{"key":"a"}},
		{"id":"w","tool":"rec:%s","arguments":{"file":%q},"depends_on":["a"]},
		{"id":"b","tool":"rec:inc","arguments":{"key":"b"},"depends_on":["w"]}]}`, tool, file))}
}

// Latest is the newest run.
func (m *Machine) Latest() core.Run {
	m.T.Helper()
	var page api.Page[core.Run]
	m.OK("workflows", "ls", "--json").Decode(&page)
	if len(page.Items) == 0 {
		m.T.Fatal("there is no run")
	}
	return page.Items[0]
}

// Binary is the path of pml, in the version that the machine has now.
func (m *Machine) Binary() string {
	m.T.Helper()
	if m.Version != "" {
		return PML(m.T, "-ldflags=-s -w -X main.version="+m.Version)
	}
	return PML(m.T)
}

// Command is pml with arguments, not started.
func (m *Machine) Command(ctx context.Context, args ...string) *exec.Cmd {
	m.T.Helper()
	cmd := exec.CommandContext(ctx, m.Binary(), args...)
	cmd.Dir, cmd.Env = m.WS, append([]string{}, m.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 30 * time.Second // only a child that keeps the output open uses it up
	return cmd
}

// PML runs pml to its end.
func (m *Machine) PML(args ...string) Output {
	m.T.Helper()
	return m.Start(args...).Wait()
}

// OK runs pml and wants exit 0.
func (m *Machine) OK(args ...string) Output {
	m.T.Helper()
	return m.Exit(0, args...)
}

// Exit runs pml and wants an exit code.
func (m *Machine) Exit(code int, args ...string) Output {
	m.T.Helper()
	return m.PML(args...).Want(code)
}

// JSON runs pml with --json and returns the result on its stdout.
func (m *Machine) JSON(code int, args ...string) api.Result {
	m.T.Helper()
	return m.Exit(code, append(args, "--json")...).Result()
}

// Execute runs code with --json.
func (m *Machine) Execute(code int, script string, more ...string) api.Result {
	m.T.Helper()
	return m.JSON(code, append([]string{"execute", "--code", script}, more...)...)
}

// Workflow is a run as workflows show gives it.
func (m *Machine) Workflow(id core.ID) core.Workflow {
	m.T.Helper()
	var w core.Workflow
	m.OK("workflows", "show", string(id), "--json").Decode(&w)
	return w
}

// Approvals are those that wait.
func (m *Machine) Approvals(more ...string) []core.Approval {
	m.T.Helper()
	var page api.Page[core.Approval]
	m.OK(append([]string{"approvals", "ls", "--json"}, more...)...).Decode(&page)
	return page.Items
}
