package cli_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// A flag that needs an id names the walk, which needs none.
func TestApprove_FlagsWithoutID(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"approve --all", "approve --all-of-type tool_permission", "deny --all"} {
		verb, _, _ := strings.Cut(args, " ")
		(&shell{tty: true, fake: asked()}).run(strings.Fields(args)...).want(t, 2).
			has(t, "err", "needs the ID of a run or an approval", "pml "+verb+" walks through all that wait", "next: pml "+verb+"\n")
	}
	(&shell{}).run("approve", "--help").want(t, 0).has(t, "out", "decide all of a type that wait in the run")
}

// The walk counts on: what was asked about, and what is open.
func TestInbox_Counts(t *testing.T) {
	t.Parallel()
	f := several(core.RiskLow, core.RiskMedium, core.RiskHigh)
	s := (&shell{tty: true, stdin: "y\nl\nn\n\n", fake: f}).run("approve").want(t, 8).has(t, "err", "(1 of 3)", "(2 of 3)", "(3 of 3)")
	if s.yesTo() != "+00 -02" {
		t.Errorf("decided %q\n%s", s.yesTo(), s.err)
	}
	// A question that is asked again has its number still.
	f = several(core.RiskLow, core.RiskMedium)
	f.errs = []error{core.Errorf(core.CodeDigestMismatch, "the file has changed")}
	s = (&shell{tty: true, stdin: "y\ny\ny\n", fake: f}).run("approve").want(t, 0)
	if strings.Count(s.err, "(1 of 2)") != 2 || strings.Count(s.err, "(2 of 2)") != 1 {
		t.Error(s.err)
	}
}

// layerAsk is a question about the second of three layers.
func layerAsk() core.Approval {
	left := at.Add(time.Hour)
	return core.Approval{
		ID: appA, RunID: runA, Type: core.ApproveLayer, Risk: core.RiskLow, Description: "Start layer 2 of 3? Calls in it: 1.", Digest: hashA,
		Context: json.RawMessage(`{"layer_index":1,"total_layers":3,"next":[{"id":"c2","tool":"fs:read"}]}`), State: core.ApprovalOpen, ExpiresAt: &left, CreatedAt: at,
	}
}

// A card about a layer names the setting that ends it, and counts layers once.
func TestBlock_Layer(t *testing.T) {
	t.Parallel()
	s := (&shell{fake: &fake{pending: []core.Approval{layerAsk()}}}).run("approvals", "show", "41d2").want(t, 0).
		has(t, "out", "expires      in 1h00m (approvals.resume_ttl)", "Start layer 2 of 3?", "c2")
	s.lacks(t, "layer index", "total layers")
	f := &fake{workflow: core.Workflow{Run: core.Run{ID: runA, State: core.RunWaiting}, Approvals: []core.Approval{layerAsk()}}}
	(&shell{fake: f, tty: true, width: 120, env: map[string]string{"TERM": "xterm", "NO_COLOR": "1"}}).run("wf", "watch", "7f3a91").want(t, 8).has(t, "out", "Calls in it: 1, risk low")
}

// Rows about different calls are told apart at 80 columns.
func TestApprovalsLs_Narrow(t *testing.T) {
	t.Parallel()
	f := several(core.RiskLow, core.RiskLow)
	for i := range f.pending {
		f.pending[i].RunName = "the nightly report about all that was done.ts"
	}
	s := (&shell{fake: f, tty: true, width: 80}).run("approvals", "ls").want(t, 0)
	want := `APPROVAL  RISK  EXPIRES  NAME                                    WHAT
52e3f100  low   59s      the nightly report about all that was…  write docs/0.md
52e3f101  low   59s      the nightly report about all that was…  write docs/1.md
`
	if diff := cmp.Diff(want, s.out); diff != "" {
		t.Error(diff)
	}
	(&shell{fake: f}).run("approvals", "ls", "-o", "wide").want(t, 0).has(t, "out", "write docs/1.md", "DESCRIPTION")
}

// editing is a terminal with an editor that leaves other arguments.
func editing(f *fake, typed string, edits ...string) *shell {
	return &shell{tty: true, stdin: typed, fake: f, edit: func(context.Context, string, string) (string, error) {
		text := edits[0]
		edits = edits[1:]
		return text, nil
	}}
}

// The arguments of a call can be changed at every prompt; what changed is shown, and the
// new question is asked.
func TestPrompt_Edit(t *testing.T) {
	t.Parallel()
	sent := api.Decision{Approve: true, Checkpoint: appB, ExpectDigest: "edited", Presence: core.PresenceTerminal, Answer: &core.Answer{Arguments: json.RawMessage(`{"path":"b"}`)}}
	no := api.Decision{Checkpoint: appB, ExpectDigest: hashA, Presence: core.PresenceTerminal}
	run := []string{"run", "--code", "x"}
	for _, tt := range []struct {
		name, typed string
		args        []string
		edits       []string
		want        api.Decision
	}{
		{"Inbox", "e\ny\n", []string{"approve"}, []string{`{"path":"b"}`}, sent},
		{"ID", "edit\n\n", []string{"approve", "52e3"}, []string{`{"path":"b"}`}, sent},
		{"Run", "e\ny\n", run, []string{`{"path":"b"}`}, sent},
		{"NotJSON", "e\ne\ny\n", run, []string{`{`, `{"path":"b"}`}, sent},
		{"Twice", "e\ne\ny\n", run, []string{`{"path":"c"}`, `{"path":"b"}`}, sent},
		{"No", "e\nn\n\n", run, []string{`{"path":"b"}`}, no},
		{"NoByFlag", "n\n\n", []string{"approve", "52e3", "--edit"}, []string{`{"path":"b"}`}, no},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := waits(core.RiskLow)
			f.settles, f.workflow.State = true, core.RunComplete
			if tt.args[0] == "run" {
				f.results = []api.Result{waiting(permission(core.RiskLow))}
			}
			s := editing(f, tt.typed, tt.edits...)
			s.clock = &slow{at: at}
			s.run(tt.args...).want(t, 0).has(t, "err", "changed:", "+path  b", "/ [e]dit / [n]o (deny)", "[y]es, send these")
			if diff := cmp.Diff([]api.Decision{tt.want}, s.decisions()); diff != "" {
				t.Errorf("%s\n%s", diff, s.err)
			}
		})
	}
	f := asked()
	f.pending = f.pending[:1] // an installation has no arguments
	editing(f, "l\n").run("approve").lacks(t, "[e]dit")
	editing(waits(core.RiskLow), "l\n").run("approve", "52e3", "--remember", "run").lacks(t, "[e]dit")
}

// A run that failed on a server that does not start leads to that server, not to a retry.
func TestNext_ServerDoesNotStart(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		failure core.Failure
		next    string
	}{
		{"NotOnPath", core.Failure{Tool: "gone:thing", Code: core.CodeServerUnreachable, Error: "gone is not on PATH", Retryable: true}, "servers check gone"},
		{"NoPackage", core.Failure{Tool: "nopkg:thing", Code: core.CodeInstallFailed, Error: "not found"}, "servers check nopkg"},
		{"Stopped", core.Failure{Tool: "db:query", Code: core.CodeServerUnreachable, Error: "it stopped during the call"}, "retry 7f3a91c2"},
		{"Tool", core.Failure{Tool: "db:query", Code: core.CodeToolFailed, Error: "no such row"}, "retry 7f3a91c2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			failed := api.Result{Status: api.StatusError, WorkflowID: runA, ErrorCode: tt.failure.Code, Error: tt.failure.Error, Failures: []core.Failure{tt.failure}}
			(&shell{fake: &fake{results: []api.Result{failed}}}).run("run", "--code", "x").has(t, "err", "next: pml "+tt.next+"\n")
			f := asked()
			f.settles = true
			f.workflow.State, f.workflow.Error = core.RunFailed, &core.Error{Code: tt.failure.Code, Message: tt.failure.Error, Failures: []core.Failure{tt.failure}}
			(&shell{tty: true, stdin: "y\ny\n", fake: f}).run("approve").want(t, 0).has(t, "err", "next: pml "+tt.next+"\n")
			(&shell{fake: f}).run("workflows", "show", string(runA)).has(t, "out", "next: pml "+tt.next+"\n")
		})
	}
}

// Where only people decide --on-approval deny is refused, and a person denies.
func TestOnApproval_DenyRefused(t *testing.T) {
	t.Parallel()
	refused := core.Errorf(core.CodeAwaitingHuman, "the run waits for a person").WithNext("pml", "approvals", "ls")
	f := &fake{results: []api.Result{waiting(permission(core.RiskLow))}, errs: []error{nil, refused}}
	(&shell{fake: f}).run("run", "--code", "x", "--on-approval", "deny").want(t, 8).has(t, "err", "next: pml deny 52e3f18c\n")
	(&shell{}).run("run", "--help").want(t, 0).has(t, "out", "(deny: not where")
}

// What was decided is said before what the run says of it.
func TestDecided_Said(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ args, typed, says string }{
		{"deny 52e3", "", "denied: write a"},
		{"deny 7f3a91", "", "denied: write a"},
		{"approve 52e3", "y\n", "approved: write a"},
		{"approve 7f3a91 --all", "y\n", "approved: write a"},
	} {
		f := waits(core.RiskLow)
		f.workflow = core.Workflow{Run: core.Run{ID: runA, State: core.RunWaiting}, Approvals: f.pending}
		f.results = []api.Result{{Status: api.StatusError, WorkflowID: runA, ErrorCode: core.CodeDenied, Error: "it was denied"}}
		s := (&shell{tty: true, stdin: tt.typed, fake: f}).run(strings.Fields(tt.args)...).want(t, 9).has(t, "err", tt.says, "error: it was denied")
		if strings.Index(s.err, tt.says) > strings.Index(s.err, "error: ") {
			t.Errorf("%s: %s", tt.args, s.err)
		}
	}
	f := waits(core.RiskLow)
	(&shell{fake: f}).run("deny", "52e3").lacks(t, "denied: ")
}
