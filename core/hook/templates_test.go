package hook_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core/flow"
	"github.com/casys-ai/pml/core/hook"
)

// at is a clock that stands still.
type at time.Time

func (t at) Now() time.Time { return time.Time(t) }

// template is a set with the enabled flow of a template.
func template(t *testing.T, name string, changes ...string) *flow.Set {
	t.Helper()
	for _, tmpl := range flow.Templates() {
		if tmpl.Name == name {
			text := strings.NewReplacer(append([]string{`"enabled": false`, `"enabled": true`}, changes...)...).Replace(string(tmpl.Flow(name, name, time.Time{})))
			return setOf(t, text)
		}
	}
	t.Fatalf("there is no template %s", name)
	return nil
}

// tried is a call in a test of templates, and what becomes of it.
type tried struct {
	tool, args string
	reads      bool
	answer     string // of the server
	want       string // "ok", "ask", a part of why it is refused, or "gives" or "agent" and "&" and a part of the result
}

// Each template does what it says.
func TestTemplates(t *testing.T) {
	t.Parallel()
	const token = "ghp_0123456789abcdefghijklmnopqrstuvwxyzAB"
	monday := time.Date(2026, 11, 23, 7, 59, 0, 0, time.UTC)
	long := strings.Repeat("x", 30000)
	for name, c := range map[string]struct {
		now     time.Time
		changes []string
		calls   []tried
	}{
		"approve-outside": {calls: []tried{
			{tool: "fs:write_file", args: `{"path":"docs/a.md"}`, want: "ok"},
			{tool: "fs:write_file", args: `{"path":"./docs/x/../a.md"}`, want: "ok"},
			{tool: "fs:write_file", args: `{"path":"docs"}`, want: "ok"},
			{tool: "fs:write_file", args: `{"path":"docs/../src/a.go"}`, want: "ask"},
			{tool: "fs:write_file", args: `{"path":"docs/../../docs/a"}`, want: "ask"},
			{tool: "fs:write_file", args: `{"path":"docsy/a"}`, want: "ask"},
			{tool: "fs:write_file", args: `{"path":"/docs/a"}`, want: "ask"},
			{tool: "fs:write_file", args: `{"path":"..\\docs\\a"}`, want: "ask"},
			{tool: "fs:move_file", args: `{"source":"docs/a","destination":"a"}`, want: "ask"},
			{tool: "fs:write_all", args: `{"files":[{"path":"docs/a"},{"path":"b"}]}`, want: "ask"},
			{tool: "fs:write_all", args: `{"paths":["docs/a","docs/b"]}`, want: "ok"},
			{tool: "fs:write_file", args: `{"content":"x"}`, want: "ask"},
			{tool: "fs:read_file", args: `{"path":"src/a.go"}`, reads: true, want: "ok"},
		}},
		"block-pattern": {calls: []tried{
			{tool: "sh:run", args: `{"command":["sh","-c","RM -RF /"]}`, want: "not allowed here"},
			{tool: "sh:run", args: `{"command":"ls"}`, want: "ok"},
		}},
		"redact-secrets": {calls: []tried{
			{answer: `{"content":[{"type":"text","text":"token ` + token + ` end"}]}`, want: `gives&"token [redacted] end"`},
			{answer: `{"content":[{"type":"text","text":"{\"t\":\"` + token + `\"}"}],"structuredContent":{"t":"` + token + `"}}`, want: `gives&"structuredContent":{"t":"[redacted]"}`},
			{answer: `{"content":[{"type":"text","text":"nothing"}]}`, want: "ok"},
		}},
		"rate-limit": {changes: []string{`"limit": 30`, `"limit": 2`}, calls: []tried{
			{want: "ok"}, {want: "ok"}, {want: "limit of 2"}, {tool: "fs:other", want: "ok"},
		}},
		"cache-reads": {calls: []tried{
			{reads: true, answer: `{"content":[{"type":"text","text":"first"}]}`, want: "ok"},
			{reads: true, answer: `{"content":[{"type":"text","text":"second"}]}`, want: `gives&"first"`},
			{reads: true, args: `{"other":1}`, answer: `{"content":[{"type":"text","text":"third"}]}`, want: "ok"},
			{answer: `{"content":[{"type":"text","text":"a write"}]}`, want: "ok"},
		}},
		"cut-results": {calls: []tried{
			{answer: `{"content":[{"type":"text","text":"` + long + `"}]}`, want: "agent&[10000 of 30000 characters were cut"},
			{answer: `{"content":[{"type":"text","text":"` + long + `"}],"structuredContent":{"content":"` + long + `"}}`, want: `agent&"structuredContent":{"content":"xxx`},
			{answer: `{"content":[{"type":"text","text":"short"}]}`, want: "ok"},
		}},
		"require-ticket": {calls: []tried{
			{args: `{"message":"fix"}`, want: "no ticket"}, {args: `{"message":"PML-12: fix"}`, want: "ok"}, {args: `{"message":"fix"}`, reads: true, want: "ok"},
		}},
		"office-hours":         {now: monday, calls: []tried{{want: "from 8 to 18"}, {reads: true, want: "ok"}}},
		"office-hours/later":   {now: monday.Add(time.Minute), calls: []tried{{want: "ok"}}},
		"office-hours/weekend": {now: monday.Add(-20 * time.Hour), calls: []tried{{want: "weekdays"}}},
		"taint": {calls: []tried{
			{tool: "fs:write", want: "ok"}, {tool: "web:fetch_page", reads: true, want: "ok"}, {tool: "fs:write", want: "ask"}, {tool: "fs:read", reads: true, want: "ok"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.now.IsZero() {
				c.now = monday
			}
			r := newRig(t, func(o *hook.Options) { o.Clock = at(c.now) })
			set := template(t, strings.Split(name, "/")[0], c.changes...)
			for i, call := range c.calls {
				got := r.outcome(set, call)
				for part := range strings.SplitSeq(call.want, "&") {
					if !strings.Contains(got, part) {
						t.Errorf("%d: want %s, got %.300s", i, call.want, got)
					}
				}
			}
		})
	}
}

// outcome makes a call and says what has become of it.
func (r *rig) outcome(set *flow.Set, c tried) string {
	r.t.Helper()
	req := request(`{"a":1}`)
	if req.Annotations.ReadOnly = &c.reads; c.tool != "" {
		req.Tool = c.tool
	}
	if c.args != "" {
		req.Args = json.RawMessage(c.args)
	}
	answer := json.RawMessage(`{"content":[{"type":"text","text":"done"}]}`)
	if c.answer != "" {
		answer = json.RawMessage(c.answer)
	}
	p, err := r.Before(context.Background(), set, req)
	if err != nil {
		return err.Error()
	}
	if p != nil && len(p.Asks) > 0 {
		return "ask"
	}
	given := answer
	if p != nil && len(p.Response) > 0 {
		given = p.Response
	}
	switch left := r.After(context.Background(), set, req, p, flow.Answer{Result: given}); {
	case left.Err != nil:
		return left.Err.Error()
	case len(left.Agent) > 0:
		return "agent " + string(left.Agent)
	case string(left.Result) != string(answer):
		return "gives " + string(left.Result)
	}
	return "ok"
}

// The template audit writes a row for a write, with how it ended, and none for a read.
func TestTemplates_Audit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	set := template(t, "audit")
	for _, reads := range []bool{true, false} {
		if got := r.outcome(set, tried{tool: "fs:write", args: `{"key":"` + secret + `"}`, reads: reads}); got != "ok" {
			t.Fatal(got)
		}
	}
	_ = r.Close()
	if rows := r.store.audit; len(rows) != 1 || rows[0].Tool != "fs:write" || rows[0].By.Who != "flow:audit" || rows[0].Reason != `cli called fs:write {"key":"«KEY»"}: answered` {
		t.Errorf("%+v", rows)
	}
}
