package storetest

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// testDecideRenewed: a decision about what has expired asks again and decides in one
// transaction; one that is refused leaves what has expired as it was.
func testDecideRenewed(k *kit) {
	run, a := k.waiting()
	k.Clock.Advance(time.Hour)
	decide := func(approve bool, digest string) (core.Approval, error) {
		return k.Store.Decide(k.ctx(), core.Decision{ApprovalID: a.ID, Approved: approve, By: human, At: k.now(), ExpectDigest: digest},
			store.Renewal{Fresh: k.id(), Until: k.in(5 * time.Minute), RunUntil: k.in(48 * time.Hour)})
	}
	_, err := decide(true, "sha256:bb")
	k.wantCode(err, core.CodeDigestMismatch)
	if old := k.getApproval(a.ID); old.RenewedBy != "" {
		k.t.Fatalf("refused, and it was asked again: %+v", old)
	}
	got, err := decide(true, a.Digest)
	if err != nil || got.ID == a.ID || got.State != core.ApprovalApproved || got.Renews != a.ID || got.Digest != a.Digest {
		k.t.Fatalf("%+v %v", got, err)
	}
	if old := k.getApproval(a.ID); old.State != core.ApprovalExpired || old.RenewedBy != got.ID {
		k.t.Errorf("the old one: %+v", old)
	}
	if diff := cmp.Diff(got, k.getApproval(got.ID)); diff != "" {
		k.t.Errorf("stored: %s", diff)
	}
	if again, err := decide(true, ""); err != nil || again.ID != got.ID {
		k.t.Errorf("the same again: %s, %v", again.ID, err)
	}
	_, err = decide(false, "")
	k.wantCode(err, core.CodeAlreadyDecided)
	var rows []string
	for _, row := range k.audit() {
		if row.RunID == run.ID {
			rows = append(rows, string(row.Outcome)+" "+string(row.Renewed))
		}
	}
	if diff := cmp.Diff([]string{"expired ", "approved " + string(a.ID)}, rows); diff != "" {
		k.t.Error(diff)
	}
	if at := k.get(run.ID).ExpiresAt; at == nil || !at.Equal(k.now().Add(48*time.Hour)) {
		k.t.Errorf("the run expires at %v", at)
	}
}

// testDecideRenewedOnce: of several who decide what has expired one wins.
func testDecideRenewedOnce(k *kit) {
	run, a := k.waiting()
	k.Clock.Advance(time.Hour)
	stores := []store.Store{k.Store, k.another(), k.another()}
	var won atomic.Int32
	var wg sync.WaitGroup
	for i := range 9 {
		fresh := k.id()
		wg.Go(func() {
			d := core.Decision{ApprovalID: a.ID, Approved: i%2 == 0, By: core.Actor{Who: strconv.Itoa(i), Via: core.ViaCLI}, At: k.now()}
			if got, err := stores[i%3].Decide(k.ctx(), d, store.Renewal{Fresh: fresh}); err == nil && got.DecidedBy.Who == d.By.Who {
				won.Add(1)
			}
		})
	}
	wg.Wait()
	decided := 0
	for _, row := range k.audit() {
		if row.RunID == run.ID && row.Renewed == a.ID {
			decided++
		}
	}
	if won.Load() != 1 || decided != 1 {
		k.t.Errorf("%d won, %d rows", won.Load(), decided)
	}
}
