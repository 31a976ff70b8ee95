package route_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// row is a row of a log, of a second.
func row(seq int64, second int) core.AuditRow {
	return core.AuditRow{Seq: seq, At: after(second), Outcome: core.OutcomeRefused}
}

// TestAudit_Pages: however long the pages are, every row of both logs is listed
// once, with its side; those of one log in its order, and all by time where the
// clocks of both agree.
func TestAudit_Pages(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		b := newBoth(t, false, false)
		for _, h := range []*half{b.local, b.remote} {
			at := 0
			for i := range rapid.IntRange(0, 12).Draw(rt, "rows") {
				at += rapid.IntRange(0, 3).Draw(rt, "later")
				h.audit = append(h.audit, row(int64(i+1), at))
			}
		}
		limit := rapid.IntRange(1, 7).Draw(rt, "limit")
		var got []core.AuditRow
		for since := (api.Since{}); ; {
			page, err := b.Audit(rt.Context(), api.AuditQuery{Since: since, Limit: limit})
			if err != nil || len(page) > limit {
				rt.Fatalf("%v, %d rows", err, len(page))
			}
			if len(page) == 0 {
				break
			}
			for _, r := range page {
				since = since.Past(r.Side, r.Seq)
			}
			got = append(got, page...)
		}
		next := map[core.Side]int64{core.SideClient: 1, core.SideServer: 1}
		for i, r := range got {
			if r.Seq != next[r.Side] || i > 0 && r.At.Before(got[i-1].At) {
				rt.Fatalf("row %d: %+v", i, got)
			}
			next[r.Side]++
		}
		if len(got) != len(b.local.audit)+len(b.remote.audit) {
			rt.Fatalf("%d rows", len(got))
		}
		if whole, err := b.Audit(rt.Context(), api.AuditQuery{}); err != nil || len(got) > 0 && !reflect.DeepEqual(whole, got) {
			rt.Fatalf("%v, whole %+v, in pages %+v", err, whole, got)
		}
		var back []core.AuditRow
		for before := (api.Since{}); ; {
			page, err := b.Audit(rt.Context(), api.AuditQuery{Before: before, Newest: true, Limit: limit})
			if err != nil || len(page) > limit {
				rt.Fatalf("%v, %d rows", err, len(page))
			}
			if len(page) == 0 {
				break
			}
			for _, r := range page {
				before = before.Past(r.Side, r.Seq)
			}
			back = append(back, page...)
		}
		if len(back) != len(got) || !slices.IsSortedFunc(back, func(a, b core.AuditRow) int { return b.At.Compare(a.At) }) {
			rt.Fatalf("newest first, in pages: %+v", back)
		}
	})
}

// TestAudit_Halves: a number alone means the only log that there is; a server
// that is away makes the list shorter, unless it was named and refuses.
func TestAudit_Halves(t *testing.T) {
	t.Parallel()
	b := newBoth(t, false, true)
	b.local.audit, b.remote.audit = []core.AuditRow{row(1, 1), row(2, 5)}, []core.AuditRow{row(1, 3)}
	if rows, err := b.Audit(t.Context(), api.AuditQuery{Since: api.Since{Any: 1}}); err != nil || len(rows) != 1 || rows[0].Side != core.SideClient || rows[0].Seq != 2 {
		t.Errorf("%v %+v", err, rows)
	}
	b.noServer.Store(false)
	if _, err := b.Audit(t.Context(), api.AuditQuery{Since: api.Since{Any: 1}}); core.CodeOf(err) != core.CodeInvalidArguments {
		t.Errorf("%v", err)
	}
	rows, err := b.Audit(t.Context(), api.AuditQuery{Since: api.Since{Client: 1}})
	if err != nil || len(rows) != 2 || rows[0].Side != core.SideServer {
		t.Errorf("%v %+v", err, rows)
	}
	b.remote.down = errDown
	if rows, err = b.Audit(t.Context(), api.AuditQuery{}); err != nil || len(rows) != 2 || len(b.warnings) != 1 {
		t.Errorf("%v %+v %q", err, rows, b.warnings)
	}
	refuses := newBoth(t, true, false)
	refuses.remote.down = core.Errorf(core.CodeAuth, "no such key")
	if _, err := refuses.Audit(t.Context(), api.AuditQuery{}); core.CodeOf(err) != core.CodeAuth {
		t.Errorf("%v", err)
	}
	if _, err := refuses.VerifyAudit(t.Context()); core.CodeOf(err) != core.CodeAuth {
		t.Errorf("%v", err)
	}
}

// TestVerifyAudit_Both: all is well when each chain holds; one that cannot be
// checked is not known to hold.
func TestVerifyAudit_Both(t *testing.T) {
	t.Parallel()
	good, bad := api.AuditReport{Rows: 3, OK: true}, api.AuditReport{Rows: 2, Bad: 2, Reason: "changed"}
	for name, tt := range map[string]struct {
		ours, theirs api.AuditReport
		down, alone  bool
		ok           bool
		side         core.Side
		rows, logs   int
	}{
		"Both":    {ours: good, theirs: good, ok: true, rows: 6, logs: 2},
		"Alone":   {ours: good, alone: true, ok: true, rows: 3, logs: 1},
		"Ours":    {ours: bad, theirs: good, side: core.SideClient, rows: 5, logs: 2},
		"Theirs":  {ours: good, theirs: bad, side: core.SideServer, rows: 5, logs: 2},
		"Silent":  {ours: good, theirs: good, down: true, side: core.SideServer, rows: 3, logs: 2},
		"BothBad": {ours: bad, theirs: bad, side: core.SideClient, rows: 4, logs: 2},
	} {
		b := newBoth(t, false, tt.alone)
		b.local.report, b.remote.report = tt.ours, tt.theirs
		if tt.down {
			b.remote.down = errDown
		}
		r, err := b.VerifyAudit(t.Context())
		if err != nil || r.OK != tt.ok || r.Side != tt.side || r.Rows != tt.rows || len(r.Logs) != tt.logs || r.OK != (r.Reason == "") {
			t.Errorf("%s: %v %+v", name, err, r)
		}
		if tt.down && !strings.Contains(r.Reason, "nobody answers") {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestRefused_Here: what was refused on this machine is in its log, whichever half
// the run belongs to.
func TestRefused_Here(t *testing.T) {
	t.Parallel()
	b := newBoth(t, false, false)
	if err := b.Refused(t.Context(), idRemote, core.Actor{}, "requestState"); err != nil || len(b.remote.calls) > 0 || !slices.Contains(b.local.calls, "refused "+string(idRemote)+" requestState") {
		t.Errorf("%v %q %q", err, b.local.calls, b.remote.calls)
	}
}
