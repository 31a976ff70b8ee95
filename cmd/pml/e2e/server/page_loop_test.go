//go:build unix

package server_test

import (
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/skiptest"
)

var loopFields = regexp.MustCompile(`(?s)name="token" value="([^"]+)">\n<input type="hidden" name="decision" value="loop">\n<input type="hidden" name="bounds" value="([^"]+)">`)

// TestPages_Loop: bounds are shown, narrowed, and given on a page: as many calls of the loop
// are made, and the audit log says whose yes each of them had.
func TestPages_Loop(t *testing.T) {
	t.Parallel()
	onStores(t, asksInc(), func(t *testing.T, m *pmltest.Machine) {
		ann := keyUser{t: t, name: "ann", key: newKey(m, "ann")}
		m.Serving("--listen", "127.0.0.1:0")
		ann.url = m.Status(0).Server.URL
		waits := ann.run(`await Promise.allSettled([1, 2, 3, 4].map((n) => mcp.rec.inc({key: (n === 3 ? "other" : "k") + n}))); return 1`, "one")
		if waits.Status != api.StatusApprovalRequired {
			t.Fatalf("%+v", waits)
		}
		b := newTab(t, ann.url)
		b.send("/sign-in", url.Values{"key": {ann.key}})
		at := "/approvals/" + string(waits.CheckpointID)
		_, body := b.send(at, nil)
		pmltest.Wants(t, body, "Approve up to 4 calls within these bounds")
		status, body := b.send(at+"/bounds", url.Values{"max": {"2"}, "until": {"1h"}, "lines": {`key matches "k*"`}})
		if status != 200 || m.Count("inc") != 0 || strings.Count(body, "asked about by itself") != 2 {
			t.Fatalf("%d %s", status, body)
		}
		f := loopFields.FindStringSubmatch(body)
		if f == nil {
			t.Fatal(body)
		}
		status, body = b.send(at, url.Values{"token": {f[1]}, "decision": {"loop"}, "bounds": {f[2]}})
		if status != 200 || !strings.Contains(body, "ann via page") || !strings.Contains(body, "at most 2 calls of rec:inc") {
			t.Errorf("%d %s", status, body)
		}
		pmltest.WaitFor(t, "two calls", func() bool { return m.Count("inc") == 2 })
		pmltest.WaitFor(t, "the others wait", func() bool {
			_, body := b.send("/", nil)
			return strings.Contains(body, "2 waiting")
		})
		var log api.Page[core.AuditRow]
		m.OK("audit", "ls", "--json").Decode(&log)
		calls := map[string]int{}
		for _, r := range log.Items {
			if r.Shape == "" {
				continue
			}
			calls[r.CallID]++
			if r.Shape != f[2] || r.By.Via != core.ViaPage || r.By.Who != "ann" || r.ApprovalID != waits.CheckpointID {
				t.Errorf("%+v", r)
			}
		}
		if len(calls) != 2 || m.Count("inc") != 2 {
			t.Errorf("rows of %v, %d calls", calls, m.Count("inc"))
		}
	})
}

// TestPages_Chromium_Loop: bounds are given with a phone, in a real browser.
func TestPages_Chromium_Loop(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "starts a browser, as TestPages_Chromium does")
	m := pmltest.NewMachine(t, asksInc())
	m.OK("server", "key", "add", "ann")
	m.Serving("--listen", "127.0.0.1:0")
	var p struct{ URL string }
	m.OK("pair", "phone", "--json").Decode(&p)
	waits := m.Execute(8, `await Promise.allSettled([1, 2, 3].map((n) => mcp.rec.danger({x: "`+strings.Repeat("long", 60)+`" + n}))); return 1`)
	b := pmltest.NewChromium(t)
	b.Open(p.URL)
	b.Until(`document.querySelector("button") && document.querySelector("button").textContent == "Pair as phone"`)
	b.Eval(`document.querySelector("button").click()`)
	b.Until(`document.querySelector("h1").textContent == "3 waiting"`)
	b.Open(m.Status(0).Server.URL + "/approvals/" + string(waits.CheckpointID))
	b.Until(`document.querySelector("#loop[open]")`)
	b.Eval(`document.querySelector("#loop-max").value = "no number"; document.querySelector("#loop-lines").value = 'x is 1\ny any'; document.querySelector("#loop form[action*=bounds] button").click()`)
	b.Until(`document.querySelectorAll("#loop .wrong li").length == 2`)
	for expression, want := range map[string]string{
		"document.documentElement.scrollWidth > innerWidth": "false", "location.hash": `"#loop"`, `document.querySelector("#loop-max").value`: `"no number"`,
		`[...document.querySelectorAll("input:not([type=hidden]), textarea")].every(i => i.labels.length == 1)`: "true",
		`document.querySelectorAll("#loop button").length`:                                                      "1",
	} {
		if got := b.Eval(expression); got != want {
			t.Errorf("%.60s: %s", expression, got)
		}
	}
	b.Eval(`document.querySelector("#loop-max").value = "2"; document.querySelector("#loop-lines").value = ""; document.querySelector("#loop button").click()`)
	b.Until(`document.querySelector("#loop button.good") && document.querySelector("#loop button.good").textContent == "Approve up to 2 calls within these bounds"`)
	if got := b.Eval("document.documentElement.scrollWidth > innerWidth"); got != "false" || m.Count("danger") != 0 {
		t.Errorf("wider than the screen: %s; %d calls", got, m.Count("danger"))
	}
	b.Eval(`document.querySelector("#loop-typed").value = "` + string(waits.WorkflowID[:4]) + `"; document.querySelector("#loop button.good").click()`)
	b.Until(`document.querySelector("#live") && document.querySelector("#live").textContent.includes("at most 2 calls")`)
	pmltest.WaitFor(t, "two calls", func() bool { return m.Count("danger") == 2 })
}
