package screen

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/state"
)

// fixtureNow is when every screen of the tests is looked at.
var fixtureNow = time.Date(2026, 11, 22, 14, 2, 31, 0, time.UTC)

// fixtureSecret is what a person types into a secret input of the tests. It
// must never be on a screen.
const fixtureSecret = "4711-hunter2"

// Ids of the fixture that tests name.
const (
	runWaiting     core.ID = "7f3a91c2-0000-4000-8000-000000000001"
	runETL         core.ID = "7f39c0d4-0000-4000-8000-000000000002"
	runNotes       core.ID = "7f3a77e1-0000-4000-8000-000000000003"
	runFailed      core.ID = "7f395101-0000-4000-8000-000000000007"
	runLayer       core.ID = "7f3a40cc-0000-4000-8000-000000000006"
	runInterrupted core.ID = "7f38f0aa-0000-4000-8000-000000000011"

	apIntegrity  core.ID = "a1000001-0000-4000-8000-000000000001"
	apTool       core.ID = "a1000002-0000-4000-8000-000000000002"
	apDependency core.ID = "a1000003-0000-4000-8000-000000000003"
	apKeys       core.ID = "a1000004-0000-4000-8000-000000000004"
	apOAuth      core.ID = "a1000005-0000-4000-8000-000000000005"
	apLayer      core.ID = "a1000006-0000-4000-8000-000000000006"
	apInDoubt    core.ID = "a1000007-0000-4000-8000-000000000007"
	apHook       core.ID = "a1000008-0000-4000-8000-000000000008"
)

func ago(d time.Duration) time.Time { return fixtureNow.Add(-d) }

func in(d time.Duration) *time.Time { t := fixtureNow.Add(d); return &t }

func raw(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // a fixture
	}
	return b
}

// fixtureRuns are runs of every state, newest first.
func fixtureRuns() []core.Run {
	run := func(id core.ID, state core.RunState, intent string, age time.Duration, layer, layers int) core.Run {
		r := core.Run{
			ID: id, Side: core.SideClient, Workspace: "/home/ada/src/shop", Kind: core.KindDAG, State: state, Intent: intent,
			CreatedAt: ago(age), UpdatedAt: ago(age / 2), TotalLayers: layers, CurrentLayer: layer,
			RequestedBy: core.Actor{Who: "ada", Via: core.ViaMCP, Client: core.Client{Name: "claude-code"}}, DAGVersion: 1,
		}
		if state.Final() {
			r.EndedAt = &r.UpdatedAt
		}
		return r
	}
	list := []core.Run{
		run("7f3a85b0-0000-4000-8000-000000000005", core.RunWaiting, "crawl-competitor", 12*time.Second, 0, 5),
		run("7f3a80f0-0000-4000-8000-000000000004", core.RunRunning, "triage-issues", 31*time.Second, 1, 2),
		run(runWaiting, core.RunWaiting, "checkout-sync", 134*time.Second, 2, 4),
		run(runNotes, core.RunWaiting, "release-notes", 220*time.Second, 1, 4),
		run("7f3a40cc-0000-4000-8000-000000000006", core.RunWaiting, "db-migrate-prod", 252*time.Second, 1, 2),
		run(runETL, core.RunRunning, "nightly-etl", 362*time.Second, 3, 6),
		run("7f3990ab-0000-4000-8000-000000000008", core.RunRunning, "embed-docs", 11*time.Minute, 2, 2),
		run(runFailed, core.RunFailed, "invoice-ocr", 14*time.Minute, 2, 3),
		run("7f3940de-0000-4000-8000-000000000009", core.RunComplete, "lint-all", 16*time.Minute, 3, 3),
		run("7f3911aa-0000-4000-8000-000000000010", core.RunAborted, "mass-email", 22*time.Minute, 0, 2),
		run(runInterrupted, core.RunInterrupted, "seo-audit", 25*time.Minute, 2, 4),
		run("7f38aa10-0000-4000-8000-000000000012", core.RunComplete, "backup-s3", 31*time.Minute, 1, 1),
		run("7f380001-0000-4000-8000-000000000013", core.RunExpired, "old-report.ts", 26*time.Hour, 0, 1),
	}
	list[5].Side, list[6].Side = core.SideServer, core.SideServer
	list[7].Error = core.Errorf(core.CodeToolFailed, "ocr: exit 1")
	list[12].Kind = core.KindCode
	return list
}

// fixtureApprovals wait, one of each type.
func fixtureApprovals() []core.Approval {
	ask := func(id, run core.ID, t core.ApprovalType, tool string, risk core.Risk, ttl *time.Time, description string, context any) core.Approval {
		return core.Approval{
			ID: id, RunID: run, Workspace: "/home/ada/src/shop", Side: core.SideClient, Type: t, Subject: tool, Tool: tool, Risk: risk,
			Description: description, Context: raw(context), Digest: "sha256:" + strings.Repeat("77de90", 10) + "ab12", State: core.ApprovalOpen,
			RequestedBy: core.Actor{Who: "ada", Via: core.ViaMCP, Client: core.Client{Name: "claude-code"}}, CreatedAt: ago(114 * time.Second), ExpiresAt: ttl,
		}
	}
	type obj = map[string]any
	return []core.Approval{
		ask(apIntegrity, runWaiting, core.ApproveIntegrity, "std:fetch", core.RiskHigh, in(48*time.Second), "The tools of std:fetch have changed.", obj{
			"tool": "std:fetch", "fqdn_base": "std:fetch", "kind": "tool",
			"old_hash": "sha256:a1b2c3d4" + strings.Repeat("5e6f7081", 7), "new_hash": "sha256:9f04e77b" + strings.Repeat("01ac22d0", 7),
			"changed": []string{"- fetch: gets a page of acme.com", "+ fetch: gets a page of acme.com or cdn.evil.example", "  post: unchanged"},
		}),
		ask(apTool, runNotes, core.ApproveTool, "gh:create_release", core.RiskMedium, in(186*time.Second), "Allow gh:create_release?", obj{
			"tool": "gh:create_release", "tool_id": "gh:create_release", "namespace": "gh", "needs_installation": false,
			"arguments": obj{"owner": "acme", "repo": "shop", "tag_name": "v2.1.0", "draft": false, "body": "## Highlights\n- faster checkout\n- 17 fixes\x1b[2J\u202e"},
		}),
		ask(apDependency, "7f3a85b0-0000-4000-8000-000000000005", core.ApproveDependency, "serena", core.RiskHigh, in(252*time.Second), "Install serena@0.5.0 (42 packages) for the server serena?", obj{
			"tool": "serena", "server": "serena", "range": "^0.5.0", "dependency": obj{
				"name": "serena", "version": "0.5.0", "install": "npm ci --ignore-scripts", "integrity": "sha512-abcdef", "size_bytes": 13002342, "packages": 42,
				"scripts": []string{"serena@0.5.0", "esbuild@0.21.0"},
			},
		}),
		ask(apKeys, "7f3a80f0-0000-4000-8000-000000000004", core.ApproveKeys, "tavily", core.RiskLow, in(400*time.Second), "The server tavily needs TAVILY_API_KEY.", obj{
			"tool": "tavily", "missing_keys": []string{"TAVILY_API_KEY"}, "instruction": "Add TAVILY_API_KEY to .env (NAME=value, one a line), then continue.",
		}),
		ask(apOAuth, "7f3a80f0-0000-4000-8000-000000000004", core.ApproveOAuth, "linear", core.RiskMedium, in(500*time.Second), "The server linear wants to be connected at https://linear.app, to: read write.", obj{
			"tool": "linear", "auth_url": "https://linear.app/oauth/authorize?client_id=abc&redirect_uri=http%3A%2F%2F127.0.0.1%3A41234%2Fcallback&state=0123456789abcdef0123456789abcdef&code_challenge=XYZ",
			"issuer": "https://linear.app", "scopes": []string{"read", "write"},
		}),
		ask(apLayer, "7f3a40cc-0000-4000-8000-000000000006", core.ApproveLayer, "", core.RiskMedium, nil, "Start layer 2 of 2? Calls in it: 1.", obj{
			"layer_index": 1, "total_layers": 2, "results": []obj{{"id": "dump", "tool": "db:dump", "status": "success"}},
			"next": []obj{{"id": "migrate", "tool": "db:migrate"}},
		}),
		ask(apInDoubt, runInterrupted, core.ApproveInDoubt, "mail:send", core.RiskHigh, in(3700*time.Second), "mail:send was started and pml ended before it answered: it may have run.", obj{
			"tool": "mail:send", "arguments": obj{"to": "a@b.c"}, "started_at": ago(26 * time.Minute),
		}),
		ask(apHook, runETL, core.ApproveHook, "slack:post", core.RiskLow, in(600*time.Second), "The flow notify wants slack:post.", obj{
			"flow": "notify", "node": "post", "reason": "every release is told",
		}),
	}
}

// fixtureResolved are approvals that were decided or are over.
func fixtureResolved() []core.Approval {
	done := func(n int, t core.ApprovalType, tool string, st core.ApprovalState, who string, via core.Via, at time.Duration) core.Approval {
		a := core.Approval{
			ID: core.ID(fmt.Sprintf("a2%06d-0000-4000-8000-000000000000", n)), RunID: runNotes, Workspace: "/home/ada/src/shop", Side: core.SideClient,
			Type: t, Subject: tool, Tool: tool, Risk: core.RiskMedium, State: st, CreatedAt: ago(at + 31*time.Second), Context: core.Null,
			RequestedBy: core.Actor{Who: "ada", Via: core.ViaMCP, Client: core.Client{Name: "claude-code"}}, ExpiresAt: in(-at + time.Minute),
		}
		if who != "" {
			a.DecidedBy = &core.DecidedBy{Actor: core.Actor{Who: who, Via: via}, At: ago(at)}
		}
		return a
	}
	expired := done(3, core.ApproveDependency, "torch", core.ApprovalOpen, "", "", 10*time.Minute)
	expired.ExpiresAt = in(-10 * time.Minute)
	return []core.Approval{
		done(1, core.ApproveKeys, "tavily", core.ApprovalApproved, "ada", core.ViaTUI, 41*time.Second),
		done(2, core.ApproveTool, "shell:rm", core.ApprovalDenied, "ci@runner", core.ViaCLI, 149*time.Second),
		expired,
		done(4, core.ApproveTool, "gh:list_issues", core.ApprovalApproved, "gh:list_*", core.ViaRule, 11*time.Minute),
	}
}

// fixtureWorkflow is release-notes with layers, tasks of every state and a
// failure that the run does not mind.
func fixtureWorkflow() core.Workflow {
	w := core.Workflow{Approvals: []core.Approval{fixtureApprovals()[1]}}
	for _, r := range fixtureRuns() {
		if r.ID == runNotes {
			w.Run = r
		}
	}
	task := func(id, tool string, layer int, st core.TaskState, ms float64) core.Task {
		t := core.Task{ID: id, Tool: tool, State: st, Layer: layer, Attempt: 1, DurationMS: ms, Arguments: raw(map[string]any{"repo": "acme/shop"})}
		if st.Settled() {
			start, end := ago(220*time.Second), ago(220*time.Second-time.Duration(ms)*time.Millisecond)
			t.StartedAt, t.EndedAt, t.Output = &start, &end, raw(map[string]any{"commits": 84, "text": "ok\n\x1b[31mred\u202e"})
		}
		return t
	}
	failed := task("notify", "slack:post", 1, core.TaskFailedSafe, 812)
	failed.Error = core.Errorf(core.CodeToolFailed, "rate limited, retry 2 of 5")
	predicted := task("slack_post", "slack:post", 3, core.TaskQueued, 0)
	predicted.Predicted = true
	w.Layers = []core.Layer{
		{Index: 0, Tasks: []core.Task{task("git_log", "git:log", 0, core.TaskSuccess, 12000), task("jira_query", "jira:search", 0, core.TaskSuccess, 29100)}},
		{Index: 1, Tasks: []core.Task{task("summarize", "llm:complete", 1, core.TaskSuccess, 39400), task("create_release", "gh:create_release", 1, core.TaskWaiting, 0), failed}},
		{Index: 2, Tasks: []core.Task{task("style_check", "vale:check", 2, core.TaskQueued, 0)}},
		{Index: 3, Tasks: []core.Task{task("gh_release", "gh:release", 3, core.TaskQueued, 0), predicted}},
	}
	return w
}

// layerWorkflow is db-migrate-prod, which waits before its second layer.
func layerWorkflow() core.Workflow {
	w := core.Workflow{Approvals: []core.Approval{fixtureApprovals()[5]}}
	for _, r := range fixtureRuns() {
		if r.ID == runLayer {
			w.Run = r
		}
	}
	w.Layers = []core.Layer{
		{Index: 0, Tasks: []core.Task{{ID: "dump", Tool: "db:dump", State: core.TaskSuccess, Attempt: 1, DurationMS: 41000}}},
		{Index: 1, Tasks: []core.Task{{ID: "migrate", Tool: "db:migrate", State: core.TaskQueued, Layer: 1, Arguments: raw(map[string]any{"env": "prod", "drop": true})}}},
	}
	return w
}

// fixtureEvents are events of several runs, oldest first.
func fixtureEvents() []core.Event {
	layer := func(n int) *int { return &n }
	list := []core.Event{
		{Type: core.EventWorkflowStart, RunID: "7f3a80f0-0000-4000-8000-000000000004", Message: "2 layers"},
		{Type: core.EventTaskError, RunID: runFailed, TaskID: "ocr", Tool: "ocr:run", Layer: layer(2), Error: core.Errorf(core.CodeToolFailed, "ocr: exit 1")},
		{Type: core.EventApprovalResolved, RunID: runNotes, ApprovalID: "a2000001-0000-4000-8000-000000000000", Tool: "tavily", Message: "approved"},
		{Type: core.EventLayerStart, RunID: runETL, Layer: layer(3)},
		{Type: core.EventCheckpoint, RunID: runETL, Layer: layer(2)},
		{Type: core.EventTaskWarning, RunID: "7f3990ab-0000-4000-8000-000000000008", TaskID: "embed_088", Message: "rate limited, retry 2 of 5\x1b]0;x\x07"},
		{Type: core.EventTaskLog, RunID: runNotes, TaskID: "git_log", Message: "84 commits since v2.0.9"},
		{Type: core.EventTaskStart, RunID: runETL, TaskID: "load_customers", Tool: "postgres:copy", Layer: layer(3)},
		{Type: core.EventTaskComplete, RunID: runETL, TaskID: "load_orders", Tool: "postgres:copy", Layer: layer(3), DurationMS: 812},
		{Type: core.EventDecisionRequired, RunID: runWaiting, ApprovalID: apIntegrity, Tool: "std:fetch", Message: "The tools of std:fetch have changed."},
	}
	for i := range list {
		list[i].Seq, list[i].Side = int64(18393+i), core.SideClient
		list[i].At = ago(time.Duration(len(list)-i) * 2130 * time.Millisecond)
	}
	return list
}

// fixtureAudit are rows of the audit log, oldest first.
func fixtureAudit() []core.AuditRow {
	var out []core.AuditRow
	for i, a := range fixtureResolved() {
		row := core.AuditRow{Seq: int64(i + 1), At: ago(time.Duration(10-i) * time.Minute), RunID: a.RunID, ApprovalID: a.ID, Type: a.Type, Tool: a.Tool, Outcome: a.StateAt(fixtureNow), Hash: "c0ffee"}
		if a.DecidedBy != nil {
			row.By, row.Reason = a.DecidedBy.Actor, a.DecidedBy.Reason
		}
		out = append(out, row)
	}
	out[1].Reason = "not on a Friday\x1b[1m"
	return out
}

// fixtureState knows everything above; both halves are live.
func fixtureState() *state.State {
	st := emptyState()
	st.PutRuns(fixtureRuns()...)
	st.PutWorkflow(edgedWorkflow())
	st.PutWorkflow(layerWorkflow())
	st.PutApprovals(fixtureApprovals()...)
	st.PutApprovals(fixtureResolved()...)
	st.AddEvents(fixtureEvents()...)
	st.SetAudit(fixtureAudit())
	return st
}

// emptyState is connected, and there is nothing.
func emptyState() *state.State {
	st := state.New(10_000)
	st.Loaded = true
	live := state.Link{State: state.LinkLive, Since: ago(time.Hour), AsOf: fixtureNow}
	st.Links.Client, st.Links.Server = live, live
	st.Links.Server.Name = "https://pml.acme.example"
	return st
}

// staleState is fixtureState, and the server is lost.
func staleState() *state.State {
	st := fixtureState()
	st.Links.Server.State, st.Links.Server.Since, st.Links.Server.AsOf = state.LinkLost, ago(12*time.Second), ago(14*time.Second)
	st.Links.Server.Err = "connection refused"
	return st
}

// overflowState has names that are too long and characters that are too wide.
func overflowState(name string) *state.State {
	st := fixtureState()
	var runs []core.Run
	for i, r := range fixtureRuns() {
		r.Intent = fmt.Sprintf("%s %d", name, i)
		runs = append(runs, r)
	}
	st.PutRuns(runs...)
	w := fixtureWorkflow()
	w.Intent = name
	for i := range w.Layers {
		for j := range w.Layers[i].Tasks {
			t := &w.Layers[i].Tasks[j]
			t.ID, t.Tool = fmt.Sprintf("%s_%d_%d", name, i, j), "server:"+name
		}
	}
	st.PutWorkflow(w)
	for _, a := range fixtureApprovals() {
		a.Subject, a.Tool, a.Description = name, name, name
		st.PutApprovals(a)
	}
	return st
}

// manyRuns adds runs to a state, enough to make a frame slow.
func manyRuns(st *state.State, n int) {
	states := core.RunStates
	runs := make([]core.Run, n)
	for i := range runs {
		runs[i] = core.Run{
			ID: core.ID(fmt.Sprintf("%08x-0000-4000-8000-000000000000", i)), Side: core.SideClient, Workspace: "/home/ada/src/shop", Kind: core.KindDAG,
			State: states[i%len(states)], Intent: fmt.Sprintf("flow-%d", i), CreatedAt: ago(time.Hour + time.Duration(i)*time.Second),
			UpdatedAt: ago(time.Duration(i) * time.Second), TotalLayers: 5, CurrentLayer: i % 5, DAGVersion: 1,
		}
	}
	st.PutRuns(runs...)
}

// newKeys returns the default keys.
func newKeys(t testing.TB) *keys.Map {
	t.Helper()
	m, err := keys.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// newScreen returns a screen of a state without colours.
func newScreen(t testing.TB, st *state.State, w, h int) *Screen {
	t.Helper()
	s := New(Options{
		State: st, Keys: newKeys(t), Theme: paint.NewTheme(paint.Ansi, paint.NoColor, false),
		Version: "1.4.0", Workspace: "~/src/shop", Confirm: true,
	})
	s.Resize(w, h)
	s.Changed(ago(time.Minute))
	return s
}

// press presses keys by their names, or types a text that is in quotes, and
// returns what a person wanted by that.
func press(s *Screen, names ...string) []Intent {
	var out []Intent
	for _, name := range names {
		if text, quoted := strings.CutPrefix(name, `"`); quoted {
			for _, r := range strings.TrimSuffix(text, `"`) {
				out = append(out, s.Key(keys.Key{Name: string(r), Text: string(r)}, fixtureNow)...)
			}
			continue
		}
		k := keys.Key{Name: name}
		if len([]rune(name)) == 1 {
			k.Text = name
		} else if name == "space" {
			k.Text = " "
		}
		out = append(out, s.Key(k, fixtureNow)...)
	}
	return out
}
