package service_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/store"
)

// TestHalt_Reason: the reasons of who halts calls and lets them go on stay in the store and
// the audit log without values of keys.
func TestHalt_Reason(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	const key = "token-0123456789"
	m.write(".env", "TOKEN="+key)
	c := m.client()
	why := strings.Repeat("x", 280) + " it leaks " + key // a cut key is one, too
	list, err := c.HaltCalls(c.ctx(), me, why)
	if err != nil || len(list) != 1 || strings.Contains(list[0].Reason, "token-0") {
		t.Fatalf("%+v, %v", list, err)
	}
	if _, err := c.ResumeCalls(c.ctx(), api.ResumeRequest{By: me, Presence: core.PresenceTerminal, Reason: "without " + key}); err != nil {
		t.Fatal(err)
	}
	rows, err := c.store.Audit(c.ctx(), store.AuditFilter{})
	if said := fmt.Sprint(rows); err != nil || len(rows) != 2 || strings.Contains(said, "token-0") || !strings.Contains(said, "without «TOKEN»") {
		t.Errorf("%s, %v", said, err)
	}
}
