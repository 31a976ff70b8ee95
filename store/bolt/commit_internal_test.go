package bolt

import (
	"errors"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

type noon struct{}

func (noon) Now() time.Time { return time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC) }

// TestCommit_Again: a step that is written again, because another operation has spoilt
// their batch, is what it was: nothing of the halt that is not there any more stays in it.
func TestCommit_Again(t *testing.T) {
	t.Parallel()
	s, err := Open(Options{Dir: t.TempDir(), Clock: noon{}, NewID: func() core.ID { return "r" }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	until := noon{}.Now().Add(time.Hour)
	p, err := prepare(s.blobs, store.Step{
		Create: true, Program: &core.Program{Kind: core.KindCode, Version: 1},
		Run:  core.Run{ID: "run-1", Kind: core.KindCode, State: core.RunWaiting, CreatedAt: noon{}.Now(), ExpiresAt: &until},
		Open: []core.Approval{{ID: "ap-1", CreatedAt: noon{}.Now(), ExpiresAt: &until}},
	})
	if err != nil {
		t.Fatal(err)
	}
	spoilt := errors.New("spoilt")
	err = s.update(t.Context(), func(tx *txn) error {
		return errors.Join(tx.setHalt(&core.Halt{At: noon{}.Now()}), tx.commit(p), spoilt)
	})
	if !errors.Is(err, spoilt) {
		t.Fatal(err)
	}
	if err := s.update(t.Context(), func(tx *txn) error { return tx.commit(p) }); err != nil {
		t.Fatal(err)
	}
	list, err := s.Approvals(t.Context(), store.ApprovalFilter{ID: "ap-1"})
	if err != nil || len(list) != 1 || list[0].ExpiresAt == nil || list[0].HeldMS != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}
