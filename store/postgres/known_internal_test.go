package postgres

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
)

// What is known has bounds, whatever becomes of the runs: it starts again when it
// is full, and large questions are read.
func TestKnown_Bound(t *testing.T) {
	t.Parallel()
	var k known
	k.audited(core.AuditRow{Seq: 1})
	question := func(id string, size int) *approvalRow {
		return &approvalRow{Approval: core.Approval{ID: core.ID(id), Context: make(json.RawMessage, size)}, raw: []byte("{}")}
	}
	for i := range 3 * mostWaiting {
		id := strconv.Itoa(i)
		k.stepped(core.ID(id), &txn{wrote: &runRow{}, data: []byte("{}"), opened: []*approvalRow{question("a"+id, 1), question("b"+id, 1)}})
		if k.standing(core.ID("b"+id), time.Now()) == nil {
			t.Fatal("the newest is not known")
		}
	}
	if len(k.runs) > mostWaiting || len(k.in) > 2*mostWaiting {
		t.Errorf("%d runs and %d questions", len(k.runs), len(k.in))
	}
	var many []*approvalRow
	for i := range 100 {
		many = append(many, question("q"+strconv.Itoa(i), largeWaiting/8))
	}
	k.stepped("many", &txn{wrote: &runRow{}, data: []byte("{}"), opened: many})
	if n := len(k.runs["many"].asked); n == 0 || n > 8 {
		t.Errorf("%d large questions are known", n)
	}
	k.stepped("many", nil)
	if _, ok := k.in["q0"]; ok || k.standing("q0", time.Now()) != nil {
		t.Error("a run that has stepped is still known")
	}
	k.stepped("last", &txn{wrote: &runRow{}, data: []byte("{}"), opened: []*approvalRow{question("q", 1)}})
	now := time.Now()
	k.outdated(now)
	k.audited(core.AuditRow{Seq: 2})
	if k.standing("q", now) != nil {
		t.Error("others write, and what is known counts all the same")
	}
	if k.standing("q", now.Add(othersWrite)) == nil {
		t.Error("others wrote long ago, and nothing counts any more")
	}
}

// What is known of a run is what a decision is made from: neither its input nor its
// result, however large they are, and nothing of a run whose header is large.
func TestKnown_KeepsLittle(t *testing.T) {
	t.Parallel()
	var k known
	wrote := &runRow{Run: core.Run{ID: "r", Result: make(json.RawMessage, 1), Options: core.RunOptions{Input: make(json.RawMessage, 1)}}}
	asked := []*approvalRow{{Approval: core.Approval{ID: "a", Context: json.RawMessage("{}")}, raw: []byte("{}")}}
	k.stepped("r", &txn{wrote: wrote, data: []byte("{}"), opened: asked})
	if got := k.runs["r"].run; got.Result != nil || got.Options.Input != nil {
		t.Errorf("%+v", got)
	}
	k.stepped("r", &txn{wrote: wrote, data: make([]byte, largeWaiting), opened: asked})
	if len(k.runs) != 0 {
		t.Error("a large header is kept for nothing")
	}
}

// Of two rows of the audit log the newer one counts, in whatever order they become
// known.
func TestKnown_Newest(t *testing.T) {
	t.Parallel()
	var k known
	k.audited(core.AuditRow{Seq: 2, Hash: "new"})
	k.audited(core.AuditRow{Seq: 1, Hash: "old"})
	if k.head.Seq != 2 || k.head.Hash != "new" {
		t.Errorf("%+v", k.head)
	}
}

// What is known is nobody else's: who has asked, or decides, may do with it what it
// wants.
func TestKnown_IsItsOwn(t *testing.T) {
	t.Parallel()
	var k known
	k.audited(core.AuditRow{Seq: 1})
	context := json.RawMessage(`{"n":1}`)
	asked := []*approvalRow{{Approval: core.Approval{ID: "a", Context: context}, raw: []byte("{}")}}
	k.stepped("r", &txn{wrote: &runRow{}, data: []byte("{}"), opened: asked})
	for range 2 {
		context[5] = '2'
		at := k.standing("a", time.Now())
		if at == nil || string(at.row.Context) != `{"n":1}` {
			t.Fatalf("%+v", at)
		}
		context = at.row.Context
	}
}

// What a decision has left is told to the runner that knew everything before it, and
// to nobody else.
func TestKnown_Ruling(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		told   bool
		before func(k *known) // the decision is sent
		while  func(k *known) // and before it is known what has become of it
		after  func(k *known) // before the runner asks
	}{
		"Looked":                {true, func(k *known) { k.looks("r") }, nil, nil},
		"NeverLooked":           {false, nil, nil, nil},
		"ChangedBefore":         {false, func(k *known) { k.looks("r"); k.changed() }, nil, nil},
		"DecidedBefore":         {false, func(k *known) { k.looks("r"); k.decided("r", nil, 0, true) }, nil, nil},
		"ChangedMeanwhile":      {false, func(k *known) { k.looks("r") }, func(k *known) { k.changed() }, nil},
		"ChangedAndRead":        {false, func(k *known) { k.looks("r") }, func(k *known) { k.changed(); k.looks("r") }, nil},
		"LookedMeanwhile":       {false, nil, func(k *known) { k.looks("r") }, nil},
		"DecidedTwiceMeanwhile": {false, func(k *known) { k.looks("r") }, func(k *known) { k.decided("r", nil, 0, true) }, nil},
		"ChangedAfter":          {false, func(k *known) { k.looks("r") }, nil, func(k *known) { k.changed() }},
		"SteppedAfter":          {false, func(k *known) { k.looks("r") }, nil, func(k *known) { k.stepped("r", nil) }},
		"DecidedAfter":          {false, func(k *known) { k.looks("r") }, nil, func(k *known) { k.decided("r", nil, 0, true) }},
		"TakenAlready":          {false, func(k *known) { k.looks("r") }, nil, func(k *known) { k.takeRuling("r") }},
	}
	for name, c := range cases {
		var k known
		if c.before != nil {
			c.before(&k)
		}
		turn, upToDate := k.upToDate("r")
		if c.while != nil {
			c.while(&k)
		}
		k.decided("r", &ruling{run: core.Run{ID: "r"}, row: &approvalRow{raw: []byte("{}")}}, turn, upToDate)
		if c.after != nil {
			c.after(&k)
		}
		if told := k.takeRuling("r") != nil; told != c.told {
			t.Errorf("%s: told %v", name, told)
		}
	}
}
