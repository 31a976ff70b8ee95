package storetest

import (
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// flowRun is a run of a flow that began some seconds after the start of the clock.
func flowRun(key core.FlowKey, id string, second int) core.FlowRun {
	at := start.Add(time.Duration(second) * time.Second)
	return core.FlowRun{
		ID: core.ID(id), Flow: key.Flow, Name: "Ask", Digest: "sha256:1", Workspace: key.Workspace, Owner: "ada",
		RunID: core.ID("run-of-" + id), CallID: "c1", Tool: "mail:send", State: core.FlowOK, StartedAt: at, DurationUS: 12,
		Nodes: []core.FlowNodeRun{{Node: "h", Type: "hook", State: core.FlowOK, StartedAt: at, DurationUS: 7, Console: []string{"seen"}, Change: &core.FlowChange{Before: "a", After: "b", Diff: "-1\n+2"}}},
	}
}

// testFlowRuns writes runs of two flows with one id, one of them twice, and reads them
// in another process.
func testFlowRuns(k *kit) {
	here, home := core.FlowKey{Workspace: "/w", Flow: "ask"}, core.FlowKey{Flow: "ask"}
	first, second, other := flowRun(here, "f1", 1), flowRun(here, "f2", 2), flowRun(home, "f3", 3)
	if err := k.Store.SaveFlowRuns(k.ctx(), second, first, other); err != nil {
		k.t.Fatal(err)
	}
	second.State, second.Node, second.Reason = core.FlowBlocked, "h", "no"
	if err := k.Store.SaveFlowRuns(k.ctx(), second); err != nil {
		k.t.Fatal(err)
	}
	s := k.another()
	for name, c := range map[string]struct {
		filter store.FlowRunFilter
		want   []core.FlowRun
	}{
		"All":    {store.FlowRunFilter{}, []core.FlowRun{other, second, first}},
		"Flow":   {store.FlowRunFilter{Key: here}, []core.FlowRun{second, first}},
		"Home":   {store.FlowRunFilter{Key: home}, []core.FlowRun{other}},
		"Run":    {store.FlowRunFilter{RunID: first.RunID}, []core.FlowRun{first}},
		"Limit":  {store.FlowRunFilter{Limit: 1}, []core.FlowRun{other}},
		"Owner":  {store.FlowRunFilter{Owner: "bob"}, nil},
		"Prefix": {store.FlowRunFilter{Key: core.FlowKey{Workspace: "/w", Flow: "as"}}, nil},
	} {
		got, err := s.FlowRuns(k.ctx(), c.filter)
		if err != nil || len(got) != len(c.want) || len(got) > 0 && !cmp.Equal(got, c.want) {
			k.t.Errorf("%s: %v\n%s", name, err, cmp.Diff(c.want, got))
		}
	}
}

// testFlowRunsKept writes more than are kept: the oldest of that flow go, whatever the
// order in which they came.
func testFlowRunsKept(k *kit) {
	busy, quiet := core.FlowKey{Workspace: "/w", Flow: "busy"}, core.FlowKey{Workspace: "/w", Flow: "quiet"}
	runs := []core.FlowRun{flowRun(quiet, "q", 0)}
	for i := range core.KeptFlowRuns {
		runs = append(runs, flowRun(busy, fmt.Sprintf("b%04d", i), i+10))
	}
	late, early := flowRun(busy, "late", 5000), flowRun(busy, "early", 1)
	for _, list := range [][]core.FlowRun{runs, {late}, {early}} {
		if err := k.Store.SaveFlowRuns(k.ctx(), list...); err != nil {
			k.t.Fatal(err)
		}
	}
	got, err := k.Store.FlowRuns(k.ctx(), store.FlowRunFilter{Key: busy})
	if err != nil || len(got) != core.KeptFlowRuns || got[0].ID != "late" || got[len(got)-1].ID != "b0001" {
		k.t.Fatalf("%v: %d kept, from %s to %s", err, len(got), got[0].ID, got[len(got)-1].ID)
	}
	if got, err := k.Store.FlowRuns(k.ctx(), store.FlowRunFilter{Key: quiet}); err != nil || len(got) != 1 {
		k.t.Errorf("%v: the other flow has %d", err, len(got))
	}
}

// testFlowVariables lets many set the variables of a flow: every number is given once.
func testFlowVariables(k *kit) {
	key := core.FlowKey{Workspace: "/w", Flow: "limit"}
	if v, err := k.Store.FlowVariables(k.ctx(), key); err != nil || v.Version != 0 || len(v.Values) != 0 {
		k.t.Fatalf("%+v %v", v, err)
	}
	values := func(n int64) map[string]json.RawMessage {
		return map[string]json.RawMessage{"n": json.RawMessage(strconv.FormatInt(n, 10))}
	}
	k.wantCode(k.Store.SetFlowVariables(k.ctx(), key, core.FlowVariables{Version: 2, Values: values(2)}), core.CodeNotWaiting)
	var wg sync.WaitGroup
	var mu sync.Mutex
	set := 0
	for who := range 8 {
		wg.Go(func() {
			for try := range 5 {
				v, err := k.Store.FlowVariables(k.ctx(), key)
				if err == nil {
					err = k.Store.SetFlowVariables(k.ctx(), key, core.FlowVariables{Version: v.Version + 1, Values: values(int64(10*who + try))})
				}
				mu.Lock()
				if err == nil {
					set++
				} else if core.AsError(err).Code != core.CodeNotWaiting {
					k.t.Error(err)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	s := k.another()
	v, err := s.FlowVariables(k.ctx(), key)
	if err != nil || v.Version != int64(set) || set == 0 {
		k.t.Fatalf("%v: version %d after %d changes", err, v.Version, set)
	}
	next := core.FlowVariables{Version: v.Version + 1, Values: values(7)}
	for range 2 { // again is no error
		if err := s.SetFlowVariables(k.ctx(), key, next); err != nil {
			k.t.Fatal(err)
		}
	}
	next.Values = values(8)
	k.wantCode(s.SetFlowVariables(k.ctx(), key, next), core.CodeNotWaiting)
	if v, err := s.FlowVariables(k.ctx(), core.FlowKey{Flow: "limit"}); err != nil || v.Version != 0 {
		k.t.Errorf("a flow of the home has those of the workspace: %+v %v", v, err)
	}
}
