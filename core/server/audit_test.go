package server_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// The audit log is read in pages; a key sees the rows of its own runs.
func TestAudit_PagesAndOwners(t *testing.T) {
	t.Parallel()
	e := newEdge(t, nil)
	get := func(r reply) (p api.Page[core.AuditRow]) {
		t.Helper()
		if err := json.Unmarshal([]byte(r.body), &p); err != nil || r.status != 200 {
			t.Fatalf("%d %v %s", r.status, err, r.body)
		}
		return p
	}
	if p := get(e.do(t, "GET", "/api/v1/audit", "")); len(p.Items) != 3 || p.Next != "" {
		t.Errorf("%+v", p)
	}
	if p := get(e.do(t, "GET", "/api/v1/audit?limit=2", "")); len(p.Items) != 2 || p.Next != "2" {
		t.Errorf("%+v", p)
	}
	if p := get(e.do(t, "GET", "/api/v1/audit?since=2&limit=1", "")); len(p.Items) != 1 || p.Items[0].Seq != 3 || p.Next != "" {
		t.Errorf("%+v", p)
	}
	for who, run := range map[string]core.ID{"ana": id(0x11110001), "ben": id(0x22220002)} {
		if p := get(e.as(t, who, "GET", "/api/v1/audit", "")); len(p.Items) != 1 || p.Items[0].RunID != run {
			t.Errorf("%s: %+v", who, p)
		}
	}
	if r := e.as(t, "ana", "GET", "/api/v1/audit/verify", ""); r.status != 200 || !strings.Contains(r.body, `"first_bad_seq":2`) {
		t.Errorf("%d %s", r.status, r.body)
	}
	for _, query := range []string{"since=-1", "limit=0", "limit=1001", "owner=ben"} {
		if r := e.do(t, "GET", "/api/v1/audit?"+query, ""); r.problem(t).Code != core.CodeInvalidArguments {
			t.Errorf("%s: %d %s", query, r.status, r.body)
		}
	}
}

// A decision about what the caller does not have is told to the audit log,
// whichever way it comes; a look at it is not.
func TestAudit_UnknownIds(t *testing.T) {
	t.Parallel()
	const ben, ana = "/api/v1/workflows/22220002", "/api/v1/workflows/11110001"
	for name, tt := range map[string]struct {
		path, body string
		run        core.ID
		text       string
	}{
		"Run":      {ben + "/continue", `{"decision":{"approved":true}}`, "", "22220002"},
		"Named":    {ana + "/continue", `{"decision":{"approved":true,"checkpoint_id":"ffff0002"}}`, id(0x11110001), "ffff0002"},
		"Path":     {ben + "/approvals/ffff0002", `{"approved":true}`, "", "22220002"},
		"Approval": {ana + "/approvals/ffff0002", `{"approved":true}`, id(0x11110001), "ffff0002"},
		"Older":    {"/api/v1/workflows", `{"continue_workflow":{"workflow_id":"22220002","approved":true}}`, "", "22220002"},
		"OlderToo": {"/api/v1/workflows", `{"continue_workflow":{"workflow_id":"11110001","checkpoint_id":"ffff0002","approved":true}}`, id(0x11110001), "ffff0002"},
		"NoneMade": {ben + "/continue", `{}`, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEdge(t, nil)
			if r := e.as(t, "ana", "POST", tt.path, tt.body); r.problem(t).Code != core.CodeNotFound {
				t.Fatalf("%d %s", r.status, r.body)
			}
			got := last[refusal](e.b)
			if tt.text == "" {
				if got != (refusal{}) {
					t.Errorf("%+v", got)
				}
				return
			}
			if got.owner != "ana" || got.run != tt.run || !strings.Contains(got.reason, `"`+tt.text+`"`) {
				t.Errorf("%+v", got)
			}
		})
	}
}
