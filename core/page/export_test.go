package page_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/core/page"
)

var at = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const run core.ID = "7f3a91c2-0000-4000-8000-000000000001"

// hostile is what a server or an agent could say.
const hostile = `"><script>alert(1)</script><img src=x onerror=alert(2)>'` + "\u202egnp.exe\u200b\x1b[2J {{.}} </script><!--<script>"

// log is an audit log in memory.
type log struct {
	rows []core.AuditRow
}

func newLog(t *testing.T, rows ...core.AuditRow) *log {
	t.Helper()
	l := &log{}
	for _, r := range rows {
		l.add(t, r)
	}
	return l
}

func (l *log) add(t *testing.T, r core.AuditRow) {
	t.Helper()
	var last core.AuditRow
	if len(l.rows) > 0 {
		last = l.rows[len(l.rows)-1]
	}
	r.At = at.Add(time.Duration(last.Seq) * time.Second)
	r, err := approval.Chain(last, r)
	if err != nil {
		t.Fatal(err)
	}
	l.rows = append(l.rows, r)
}

func (l *log) Audit(_ context.Context, q api.AuditQuery) (out []core.AuditRow, err error) {
	for _, r := range l.rows {
		if r.Seq > q.Since.Of(core.SideClient) && len(out) < min(q.Limit, 2) {
			r.Side = core.SideClient
			out = append(out, r)
		}
	}
	return out, nil
}

func (l *log) VerifyAudit(context.Context) (api.AuditReport, error) {
	bad, reason := approval.Verify(l.rows)
	return api.AuditReport{OK: reason == "", Bad: bad, Reason: reason, Rows: len(l.rows)}, nil
}

func row(run core.ID, outcome core.ApprovalState, reason string) core.AuditRow {
	return core.AuditRow{
		RunID: run, ApprovalID: "41d2e07b-0000-4000-8000-00000000000a", Type: core.ApproveTool, Tool: "fs:delete", Digest: "sha256:9f04",
		Outcome: outcome, By: core.Actor{Who: "ann", Via: core.ViaTUI}, Asked: core.PresenceTerminal, Reason: reason,
	}
}

func workflow(name string) core.Workflow {
	begun := at.Add(-time.Minute)
	return core.Workflow{
		Run: core.Run{ID: run, Side: core.SideClient, Workspace: "/w/" + name, Kind: core.KindCode, State: core.RunWaiting, Name: name, CreatedAt: begun, RequestedBy: core.Actor{Who: name, Via: core.ViaCLI}, Result: json.RawMessage(`"done"`)},
		Layers: []core.Layer{{Tasks: []core.Task{{
			ID: "c1", Tool: "fs:" + name, State: core.TaskError, StartedAt: &begun, DurationMS: 1234, Arguments: quoted(map[string]string{"path": name}), Output: quoted(name),
			Error: core.Errorf(core.CodeToolFailed, "%s", name),
		}}}},
		Approvals: []core.Approval{{ID: "52e3f18c", RunID: run, State: core.ApprovalOpen, Risk: core.RiskHigh, Description: name, Digest: "sha256:1", Context: json.RawMessage(`{}`)}},
	}
}

func quoted(v any) json.RawMessage {
	raw, _ := json.Marshal(v) // of strings
	return raw
}

// export is the file of a run, as the command makes it.
func export(t *testing.T, l *log, w core.Workflow, below ...core.Workflow) []byte {
	t.Helper()
	ids := []core.ID{w.ID}
	for _, b := range below {
		ids = append(ids, b.ID)
	}
	rows, err := page.RowsOf(t.Context(), l, w.Side, ids...)
	if err != nil {
		t.Fatal(err)
	}
	text, err := page.NewExport(page.Source{Run: w, Below: below, Trail: rows, At: at, Pml: "1.2.3"}).HTML()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func verify(t *testing.T, l *log, file []byte) page.Verdict {
	t.Helper()
	v, err := page.Verify(t.Context(), l, file)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func twoRuns(t *testing.T) *log {
	t.Helper()
	return newLog(t, row("other", core.ApprovalApproved, ""), row(run, core.ApprovalDenied, "not "+hostile), row("other", core.ApprovalApproved, ""),
		row(run, core.ApprovalApproved, "well"), row("other", core.ApprovalDenied, ""))
}

// What a run says stays text, whatever it is: no element, no attribute, no script.
func TestExport_Hostile(t *testing.T) {
	t.Parallel()
	file := string(export(t, twoRuns(t), workflow(hostile)))
	elements := regexp.MustCompile(`<[a-zA-Z!/][^>]*>`).FindAllString(file, -1)
	for _, e := range elements {
		if strings.Contains(e, "alert") || regexp.MustCompile(`(?i)<(img|a|link|iframe|svg|form|base)\b|\son[a-z]+=|src=|href=`).MatchString(e) {
			t.Errorf("an element of somebody else's: %s", e)
		}
	}
	if n := strings.Count(file, "<script"); n != 1 || strings.Count(file, "</script") != 1 || strings.Contains(file, "<!--") {
		t.Errorf("%d elements of script", n)
	}
	visible, _, _ := strings.Cut(file, "<script")
	if strings.ContainsAny(visible, "\u202e\u200b\x1b") || !strings.Contains(visible, `\u{202e}`) {
		t.Error("what cannot be seen is not shown")
	}
	if !strings.Contains(file, `http-equiv="Content-Security-Policy" content="default-src &#39;none&#39;; style-src &#39;sha256-`) {
		t.Error("no policy")
	}
	if regexp.MustCompile(`(?i)https?:|//[a-z]|url\(|@import`).MatchString(strings.ReplaceAll(visible, hostile, "")) {
		t.Error("it asks somebody for something")
	}
}

func TestExport_Shows(t *testing.T) {
	t.Parallel()
	w := workflow("clean up")
	w.Layers[0].Tasks[0].Arguments = quoted(map[string]string{"text": strings.Repeat("a", 9000)})
	for range 600 {
		w.Layers[0].Tasks = append(w.Layers[0].Tasks, core.Task{ID: "more", Tool: "a:b", State: core.TaskQueued})
	}
	file := string(export(t, twoRuns(t), w))
	for _, want := range []string{
		"<h1>clean up</h1>", "clean up via cli", "1.2 s", "2026-03-01 11:59:00Z", "more bytes)", "101 calls more are not shown", "ann via tui", "line 4 of the audit log",
		"sha256:9f04", "terminal", "Open questions", "high", "line 5 of the audit log, whose hash",
	} {
		if !strings.Contains(file, want) {
			t.Errorf("no %q", want)
		}
	}
	if len(file) > 200_000 {
		t.Errorf("%d bytes", len(file))
	}
}

func TestVerify_Agrees(t *testing.T) {
	t.Parallel()
	l := twoRuns(t)
	child := workflow("child")
	child.ID = "other"
	for name, file := range map[string][]byte{"a run": export(t, l, workflow(hostile)), "an agent's": export(t, l, workflow("x"), child), "nothing decided": export(t, &log{}, workflow("x"))} {
		l := l
		if name == "nothing decided" {
			l = &log{}
		}
		if v := verify(t, l, file); !v.OK || v.WorkflowID != run || len(v.Later) > 0 {
			t.Errorf("%s: %+v", name, v)
		}
	}
	file := export(t, l, workflow("x"))
	l.add(t, row(run, core.ApprovalDenied, ""))
	if v := verify(t, l, file); !v.OK || fmt.Sprint(v.Later) != "[6]" || v.Decisions != 2 {
		t.Errorf("%+v", v)
	}
}

// Each byte counts, in what is shown and in what is behind it.
func TestVerify_ChangedByte(t *testing.T) {
	t.Parallel()
	l := twoRuns(t)
	file := export(t, l, workflow("x"))
	begin := bytes.Index(file, []byte("<h2>Decisions"))
	for i := begin; i < len(file); i++ {
		changed := bytes.Clone(file)
		changed[i] ^= 1
		if v := verify(t, l, changed); v.OK || v.Reason == "" {
			t.Fatalf("byte %d, in …%s…: %+v", i, file[max(0, i-20):min(len(file), i+20)], v)
		}
	}
	for name, changed := range map[string][]byte{
		"nothing": nil, "cut": file[:len(file)-9], "longer": append(bytes.Clone(file), "<p>approved</p>"...), "another": []byte("<html></html>"),
	} {
		if v := verify(t, l, changed); v.OK || v.Reason == "" {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// A file that is whole in itself is not believed either: its rows are those of the log.
func TestVerify_Forged(t *testing.T) {
	t.Parallel()
	l := twoRuns(t)
	forge := func(change func(rows page.Rows) page.Rows) []byte {
		rows, err := page.RowsOf(t.Context(), l, core.SideClient, run)
		if err != nil {
			t.Fatal(err)
		}
		text, err := page.NewExport(page.Source{Run: workflow("x"), Trail: change(rows), At: at.Add(time.Hour)}).HTML()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	again := func(r core.AuditRow, prev core.AuditRow) core.AuditRow {
		r, err := approval.Chain(prev, r)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for name, change := range map[string]func(r page.Rows) page.Rows{
		"an outcome":    func(r page.Rows) page.Rows { r.Of[0].Outcome = core.ApprovalApproved; return r },
		"what is shown": func(r page.Rows) page.Rows { r.Of[0].Shown = "aborted"; return r },
		"one with a hash": func(r page.Rows) page.Rows {
			r.Of[0].Outcome = core.ApprovalApproved
			r.Of[0] = again(r.Of[0], l.rows[0])
			return r
		},
		"one left out":          func(r page.Rows) page.Rows { r.Of = r.Of[1:]; return r },
		"the last one":          func(r page.Rows) page.Rows { r.Of = r.Of[:1]; return r },
		"one too many":          func(r page.Rows) page.Rows { r.Of = append(r.Of, again(r.Of[0], l.rows[4])); return r },
		"another's":             func(r page.Rows) page.Rows { r.Of[0] = l.rows[0]; return r },
		"twice":                 func(r page.Rows) page.Rows { r.Of = append(r.Of, r.Of[1]); return r },
		"another head":          func(r page.Rows) page.Rows { r.Head.Hash = "sha256:0"; return r },
		"a head to come":        func(r page.Rows) page.Rows { r.Head.Seq = 9; return r },
		"no log at all":         func(r page.Rows) page.Rows { r.Head = nil; return r },
		"as if it were older":   func(r page.Rows) page.Rows { return page.Rows{Head: &page.Head{Seq: 1, Hash: l.rows[0].Hash}} },
		"as if there were none": func(page.Rows) page.Rows { return page.Rows{} },
		"the other way up":      func(r page.Rows) page.Rows { r.Of[0], r.Of[1] = r.Of[1], r.Of[0]; return r },
	} {
		if v := verify(t, l, forge(change)); v.OK || v.Reason == "" {
			t.Errorf("%s: %+v", name, v)
		}
	}
	whole := forge(func(r page.Rows) page.Rows { return r })
	l.rows[3].Reason = "changed in the log"
	if v := verify(t, l, whole); v.OK || v.Bad != 4 || !strings.Contains(v.Reason, "does not hold") {
		t.Errorf("%+v", v)
	}
}

// The layout is part of the format: a file that was written once is verified by every
// later pml. Once a release has this version, another layout needs a version of its own,
// and this one stays for reading.
func TestExport_LayoutStays(t *testing.T) {
	t.Parallel()
	digest, err := core.DigestOf(page.Layout())
	if err != nil {
		t.Fatal(err)
	}
	if digest != "sha256:e7659cfc549a5484db5752c6a89778f61667d84ef3dd941ecc303a1def020b51" {
		t.Errorf("the layout of version %d has changed to %s", page.ExportVersion, digest)
	}
}

// TestCard_Heading: the heading of an approval asks as long as it waits, and says then what
// became of it.
func TestCard_Heading(t *testing.T) {
	t.Parallel()
	past := at.Add(-time.Minute)
	a := core.Approval{ID: "52e3f18c", RunID: run, Type: core.ApproveTool, Tool: "fs:write", State: core.ApprovalOpen, Description: "Allow fs:write?"}
	layer := core.Approval{ID: "52e3f18d", RunID: run, Type: core.ApproveLayer, State: core.ApprovalApproved}
	late := a
	late.ExpiresAt = &past
	for want, c := range map[string]struct {
		of    core.Approval
		state core.ApprovalState
	}{
		"Approve tool permission?": {a, core.ApprovalOpen}, "Approved: fs:write": {a, core.ApprovalApproved}, "Denied: fs:write": {a, core.ApprovalDenied},
		"Expired: fs:write": {late, core.ApprovalOpen}, "Not asked any more: fs:write": {a, core.ApprovalSuperseded}, "Approved: layer": {layer, core.ApprovalApproved},
	} {
		c.of.State = c.state
		text, err := page.Card{Approval: c.of, Now: at}.Page().HTML()
		if err != nil || !strings.Contains(string(text), "<h1>"+want+"</h1>") {
			t.Errorf("%s: %v\n%s", want, err, text)
		}
	}
}

// A page leaves out of an approval only what it says elsewhere.
func TestCard_Whole(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 4000)
	until := at.Add(time.Minute)
	a := core.Approval{
		ID: "52e3f18c", RunID: run, Type: core.ApproveTool, Tool: "fs:write", Risk: core.RiskHigh, State: core.ApprovalOpen, ExpiresAt: &until, Description: "Write it?", Digest: "sha256:9f04",
		Context: json.RawMessage(`{"arguments":{"body":"` + long + `"},"tool":"fs:write","namespace":"fs","tool_id":"fs:writes","needs_installation":true,"leaves_workspace":false,"risk_why":"because","new_thing":{"a":1},"changed":["+ one","- two"]}`),
	}
	text, err := page.Card{Approval: a, Who: "ann", Now: at, Form: &page.Form{Token: "t", Confirm: "7f3a", Pin: true}}.Page().HTML()
	if err != nil {
		t.Fatal(err)
	}
	body := string(text)
	for _, want := range []string{long, "fs:writes", "needs installation", "high: because", "new thing", "&#43; one\n- two", "1m0s left", "sha256:9f04", "type <code>7f3a</code>", `name="pin"`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q", want)
		}
	}
	for _, no := range []string{">namespace<", ">leaves workspace<", ">tool<\n"} {
		if strings.Contains(body, no) {
			t.Errorf("it says %q", no)
		}
	}
}

// An agent is shown step by step, with what its model said, and the runs below it whole.
func TestExport_Agent(t *testing.T) {
	t.Parallel()
	const below core.ID = "8a000000-0000-4000-8000-000000000002"
	agent := core.Workflow{
		Run: core.Run{ID: run, Side: core.SideClient, Kind: core.KindAgent, State: core.RunComplete, Name: "tidy up", CreatedAt: at, Agent: &core.AgentSpent{Model: "main", Iterations: 1, MaxIterations: 5}},
		Layers: []core.Layer{{Tasks: []core.Task{
			{ID: "m1", Tool: core.ModelTool, State: core.TaskSuccess, Output: json.RawMessage(`{"text":"I look <b>first</b>","model":"m-1","usage":{"input_tokens":7,"output_tokens":3}}`)},
			{ID: "r1", Tool: core.RunTool, State: core.TaskSuccess, Arguments: quoted(map[string]string{"workflow_id": string(below), "intent": "look"}), Output: json.RawMessage(`{"calls":1}`)},
		}}},
	}
	child := workflow("look around")
	child.ID, child.State = below, core.RunComplete
	l := newLog(t, row(below, core.ApprovalApproved, "go"))
	file := export(t, l, agent, child)
	for _, want := range []string{"Step 1", "I look &lt;b&gt;first&lt;/b&gt;", "m-1", "pml:run", "<h2>look around</h2>", "fs:look around", string(below), "iteration"} {
		if !strings.Contains(string(file), want) {
			t.Errorf("no %q", want)
		}
	}
	if v := verify(t, l, file); !v.OK || v.Decisions != 1 {
		t.Errorf("%+v", v)
	}
}

// A file of next to nothing, a thousand times over, is refused before it takes memory.
func TestVerify_TooMuch(t *testing.T) {
	l := twoRuns(t)
	rows, err := page.RowsOf(t.Context(), l, core.SideClient, run)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := page.NewExport(page.Source{Run: workflow("x"), Trail: rows, At: at}).HTML()
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string][2]string{
		"rows":  {`"audit":[`, `"audit":[` + strings.Repeat("{},", 200_000)},
		"lists": {`"audit":[`, `"left_out":[` + strings.Repeat(`"",`, 4_000_000) + `""],"audit":[`},
		"text":  {`"pml":"`, `"pml":"` + strings.Repeat(`'`, 1<<20)},
	} {
		file := bytes.Replace(whole, []byte(change[0]), []byte(change[1]), 1)
		if v := verify(t, l, file); v.OK || !strings.Contains(v.Reason, "more than any page") {
			t.Errorf("%s: %+v", name, v)
		}
	}
}
