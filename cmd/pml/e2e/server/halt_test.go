//go:build unix

package server_test

import (
	"fmt"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/skiptest"
)

// haltScript makes calls one after another that are journaled before they are made, and
// some that only read.
const haltScript = `for (let i = 0; i < 6; i++) { const key = %q + i; i %% 3 ? await mcp.rec.inc({ key }) : await mcp.rec.echo({ key }) } return "done"`

// TestHalt_Load halts a server that gets 50 runs in a second, on either store: what
// reaches the recorder after the command has returned are no calls, and once a person lets
// them go on every run ends and has made each of its calls once.
func TestHalt_Load(t *testing.T) {
	t.Parallel()
	t.Run("bbolt", func(t *testing.T) { t.Parallel(); haltUnderLoad(t) })
	t.Run("PostgreSQL", func(t *testing.T) {
		skiptest.Long(t, "halts a server under load once more")
		t.Parallel()
		haltUnderLoad(t, shared(t)...)
	})
}

func haltUnderLoad(t *testing.T, args ...string) {
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	n := m.Node(args...)
	ctx := t.Context()
	var mu sync.Mutex
	var ids []core.ID
	var all sync.WaitGroup
	begin := func(i int) {
		r, err := n.Client.Execute(ctx, api.ExecuteRequest{Code: fmt.Sprintf(haltScript, fmt.Sprintf("r%d-", i))})
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		ids = append(ids, r.WorkflowID)
	}
	load, more := skiptest.Sized(t, 20, 80), 20
	all.Go(func() {
		tick := time.NewTicker(time.Second / 50)
		defer tick.Stop()
		for i := range load {
			<-tick.C
			all.Go(func() { begin(i) })
		}
	})
	pmltest.WaitFor(t, "the load to be there", func() bool { return len(m.Calls()) > load/3 })
	began := time.Now()
	m.OK("halt", "--reason", "test")
	took := time.Since(began)
	made := m.Calls()
	for i := range more { // they wait at their first call
		begin(load + i)
	}
	all.Wait()
	count := func(states ...core.RunState) (n2 int) {
		page, err := n.Client.Workflows(ctx, states, 1000, "")
		if err != nil {
			t.Fatal(err)
		}
		return len(page.Items)
	}
	pmltest.WaitFor(t, "nothing to run any more", func() bool { return count(core.RunRunning) == 0 })
	if late := m.Calls(); len(late) != len(made) {
		t.Errorf("%d calls began after the command had returned: %v", len(late)-len(made), late[len(made):])
	}
	waiting := count(core.RunWaiting)
	page, err := n.Client.Workflows(ctx, []core.RunState{core.RunWaiting}, 1, "")
	if err != nil || waiting < 20 || page.Items[0].Halted == nil || page.Items[0].Halted.Reason != "test" {
		t.Fatalf("%d runs wait, the first one %+v, %v", waiting, page.Items, err)
	}
	pmltest.Wants(t, m.OK("status").Stdout, "ALL CALLS ARE HALTED", "test")
	m.Exit(8, "resume") // nobody is asked
	if s := m.Terminal(pmltest.UsualSize, nil, []pmltest.Reply{pmltest.Typed(regexp.QuoteMeta("let calls go on? [y]es / [n]o: "), "y")}, "resume"); s.Exit != 0 {
		t.Fatalf("exit %d: %s", s.Exit, s.Text)
	}
	for done := 0; done < len(ids) && !t.Failed(); {
		pmltest.WaitFor(t, "another run to be complete", func() bool { return count(core.RunComplete) > done })
		done = count(core.RunComplete)
	}
	calls := m.Calls()
	slices.Sort(calls)
	if n := len(slices.Compact(slices.Clone(calls))); len(calls) != 6*len(ids) || n != len(calls) {
		t.Errorf("%d calls were made, %d of them different, want %d", len(calls), n, 6*len(ids))
	}
	t.Logf("%d runs, halted in %s after %d calls, %d waited; %d calls in all", len(ids), took.Round(time.Millisecond), len(made), waiting, len(calls))
}

// TestHalt_Restart halts a machine: its own runs, whichever process begins them, those of
// its server, also when that is killed, and those of a server that starts only afterwards.
func TestHalt_Restart(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	m.OK("halt")
	r := m.Execute(8, `return await mcp.rec.echo({ key: "here" })`)
	if r.Status != api.StatusHalted || r.ErrorCode != core.CodeHalted || r.WorkflowID == "" {
		t.Errorf("%+v", r)
	}
	n := m.Node()
	id := n.Begin(api.ExecuteRequest{Code: `return await mcp.rec.inc({ key: "there" })`, Wait: -1})
	n.Kill()
	n.Up()
	if run, err := n.Client.Workflow(t.Context(), id); err != nil || run.Halted == nil {
		t.Errorf("after the kill: %+v, %v", run.Run, err)
	}
	pmltest.Wants(t, m.PML("doctor").Stdout, "no call begins")
	if got := m.Calls(); len(got) > 0 {
		t.Fatalf("called %v", got)
	}
	m.Terminal(pmltest.UsualSize, nil, []pmltest.Reply{pmltest.Typed(regexp.QuoteMeta("let calls go on? [y]es / [n]o: "), "y")}, "resume")
	pmltest.WaitFor(t, "the server's run to end", func() bool {
		run, err := n.Client.Workflow(t.Context(), id)
		return err == nil && run.State == core.RunComplete
	})
	m.OK("continue", string(r.WorkflowID))
	if got := m.Calls(); len(got) != 2 {
		t.Errorf("called %v", got)
	}
	var rows []core.AuditRow
	m.OK("audit", "ls", "--json").Decode(&struct {
		Items *[]core.AuditRow `json:"items"`
	}{&rows})
	halts := 0
	for _, row := range rows {
		if regexp.MustCompile("halted").MatchString(row.Reason) {
			halts++
		}
	}
	if halts != 4 {
		t.Errorf("%d rows of the audit log tell of it, want 2 of each half: %+v", halts, rows)
	}
}
