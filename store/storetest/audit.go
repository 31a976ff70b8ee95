package storetest

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/store"
)

func testAuditChain(k *kit) {
	for range 5 {
		_, a := k.waiting()
		if _, err := k.decide(a.ID, true, human); err != nil {
			k.t.Fatal(err)
		}
	}
	run := k.create()
	k.commit(store.Step{Run: run, Audit: []core.AuditRow{{At: k.now(), Tool: "fs:write", Outcome: core.ApprovalDenied, By: other}}})
	rows := k.audit()
	if bad, reason := approval.Verify(rows); len(rows) != 6 || bad != 0 {
		k.t.Fatalf("%d rows, bad %d: %s", len(rows), bad, reason)
	}
	if rows[5].RunID != run.ID {
		k.t.Errorf("the row names the run %q", rows[5].RunID)
	}
	some, err := k.Store.Audit(k.ctx(), store.AuditFilter{After: 2, Limit: 2})
	if diff := cmp.Diff(rows[2:4], some); err != nil || diff != "" {
		k.t.Errorf("%v %s", err, diff)
	}
}

// testAuditFilter: filters, directions and limits select the same rows, whichever
// way one goes through the log.
func testAuditFilter(k *kit) {
	row := func(tool, who, dir string, outcome core.ApprovalState, ago time.Duration) core.AuditRow {
		return core.AuditRow{At: k.now().Add(-ago), Tool: tool, By: core.Actor{Who: who, Via: core.ViaCLI}, Workspace: dir, Outcome: outcome}
	}
	if err := k.Store.Record(k.ctx(),
		row("fs:write_file", "ann", "/home/ann/one", core.ApprovalApproved, 72*time.Hour),
		row("fs:read_file", "bob", "/home/ann/one", core.ApprovalDenied, 48*time.Hour),
		row("gh:write_file", "ann", "/home/ann/two", core.ApprovalApproved, 24*time.Hour),
		row("fs:write_file", "ann", "/home/ann/one/deep", core.OutcomeRefused, time.Hour),
	); err != nil {
		k.t.Fatal(err)
	}
	for text, want := range map[string]string{
		"": "1 2 3 4", "tool=WRITE": "1 3 4", "by=bob": "2", "by=cli": "1 2 3 4", "outcome=approved": "1 3", "since=49h": "2 3 4",
		"until=49h": "1", "workspace=one": "1 2", "workspace=/home/ann/one": "1 2 4", "tool=fs:,outcome=refused": "4", "tool=none": "",
	} {
		f := store.AuditFilter{}
		for set := range strings.SplitSeq(text, ",") {
			if key, value, ok := strings.Cut(set, "="); ok {
				if err := f.Set(key, value, k.now()); err != nil {
					k.t.Fatal(err)
				}
			}
		}
		all := strings.Fields(want)
		for _, limit := range []int{0, 1, 2} {
			for _, newest := range []bool{false, true} {
				f.Limit, f.Newest, f.After, f.Before = limit, newest, 0, 0
				expect := slices.Clone(all)
				if newest {
					slices.Reverse(expect)
				}
				if limit > 0 {
					expect = expect[:min(limit, len(expect))]
				}
				k.auditIs(f, expect)
			}
		}
		f.Limit, f.After, f.Before = 0, 1, 4
		for _, newest := range []bool{false, true} {
			f.Newest = newest
			expect := slices.DeleteFunc(slices.Clone(all), func(n string) bool { return n == "1" || n == "4" })
			if newest {
				slices.Reverse(expect)
			}
			k.auditIs(f, expect)
		}
	}
}

func (k *kit) auditIs(f store.AuditFilter, want []string) {
	k.t.Helper()
	rows, err := k.Store.Audit(k.ctx(), f)
	if err != nil {
		k.t.Fatal(err)
	}
	got := make([]string, len(rows))
	for i, r := range rows {
		got[i] = strconv.FormatInt(r.Seq, 10)
	}
	if !slices.Equal(got, want) {
		k.t.Errorf("%+v: %v, want %v", f, got, want)
	}
}
