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
