package service_test

import (
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// What is decided outside of a run is in the audit log, with the digest of what
// was shown and who decided; what came to nothing is not.
func TestRecord_DecisionsOutsideOfRuns(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.setPin(rightPin)
	m.write(".pml.json", ownConfig)
	c := m.client()
	s, err := c.Trust(c.ctx())
	if err != nil {
		t.Fatal(err)
	}
	code(t, c.SetTrust(c.ctx(), s.Digest, "letmein1"), core.CodeAuth)
	code(t, c.SetTrust(c.ctx(), "sha256:other", rightPin), core.CodeDigestMismatch)
	if err := c.SetTrust(c.ctx(), s.Digest, rightPin); err != nil {
		t.Fatal(err)
	}
	set := c.adding(api.ServerEntry{Name: "s", Command: "npx", Args: []string{"s"}})
	if _, err := c.Write(c.ctx(), set, true, rightPin); err != nil {
		t.Fatal(err)
	}
	// It was written meanwhile: nothing is decided by it.
	_, err = c.Write(c.ctx(), set, true, rightPin)
	code(t, err, core.CodeDigestMismatch)

	rows, err := c.Audit(c.ctx(), api.AuditQuery{})
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		outcome        core.ApprovalState
		reason, digest string
	}{
		{core.ApprovalApproved, "the PIN of config.json counts", ""},
		{core.ApprovalDenied, "wrong PIN", ""},
		{core.ApprovalApproved, "trusted", s.Digest},
		{core.ApprovalApproved, ".pml.json", set.Changes[0].Digest},
	}
	if len(rows) != len(want) {
		t.Fatalf("%+v", rows)
	}
	for i, w := range want {
		r := rows[i]
		if r.Outcome != w.outcome || !strings.Contains(r.Reason, w.reason) || r.Digest != w.digest || r.Workspace != m.ws || r.By != me || r.At.IsZero() {
			t.Errorf("%+v, want %+v", r, w)
		}
	}
	if report, err := c.VerifyAudit(c.ctx()); err != nil || !report.OK || report.Rows != len(want) {
		t.Errorf("%v %+v", err, report)
	}
}
