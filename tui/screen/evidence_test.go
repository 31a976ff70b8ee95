package screen

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/paint"
)

// cardSizes are the smallest window, in which the cards differ in their words, and
// those in which they are files.
var cardSizes = [][2]int{{40, 10}, {80, 24}, {160, 45}}

// smallCards are the words of cards in the smallest window.
var smallCards = map[string][]string{
	"integrity":  {"Approve integrity change? ━━━ 0:48", "integrity  std:fetch       risk HIGH", "! approve needs 60x15 (HIGH)", "d deny  x abort  esc back"},
	"dependency": {"Install a dependency? ━━━━━━━ 4:12", "dependency  serena         risk HIGH", "! approve needs 60x15 (HIGH)", "d deny  x abort  esc back"},
	"in_doubt":   {"It may have run: what now? 1:01:40", "in doubt  mail:send        risk HIGH", "! approve needs 60x15 (HIGH)", "d deny  x abort  esc back"},
	"keys":       {"Are the keys there? ━━━━━━━━━ 6:40", "api key  tavily             risk LOW", "! read on: 9 more lines", "d deny  x abort  a approve  esc back"},
	"oauth":      {"Connect a server? ━━━━━━━━━━━ 8:20", "oauth  linear               risk MED", "! read on: 13 more lines", "d deny  x abort  a approve  esc back"},
	"layer":      {"Start the next layer? ━━━ no limit", "layer  layer                risk MED", "! read on: 5 more lines", "d deny  x abort  a approve  esc back"},
	"hook":       {"Let the flow go on? ━━━━━━━━ 10:00", "hook  slack:post            risk LOW", "d deny  x abort  a approve  esc back"},
	"expired":    {"Install a dependency? ━━━━ expired", "dependency  torch           risk MED", "expired: pml checks it again first", "d deny  x abort  a approve  esc back"},
}

// TestCard_Golden looks at the card of every type.
func TestCard_Golden(t *testing.T) {
	t.Parallel()
	for name, id := range map[string]core.ID{
		"integrity": apIntegrity, "tool": apTool, "dependency": apDependency, "keys": apKeys, "oauth": apOAuth,
		"layer": apLayer, "in_doubt": apInDoubt, "hook": apHook, "expired": "a2000003-0000-4000-8000-000000000000",
	} {
		for _, size := range cardSizes {
			file := fmt.Sprintf("card/%s_%dx%d.txt", name, size[0], size[1])
			t.Run(file, func(t *testing.T) {
				t.Parallel()
				p := atCard(t, id, size[0], size[1])
				canvas := paint.NewCanvas(size[0], size[1], p.s.o.Theme)
				p.s.overlay[0].draw(canvas.Area(), p.s.env(p.now)) // the panels beside it have goldens of their own
				checkFrame(t, canvas.Plain(), size[0], size[1])
				if size[1] > 10 || name == "tool" {
					checkGolden(t, file, canvas.Plain())
				} else {
					wantWords(t, canvas.Plain(), smallCards[name]...)
				}
			})
		}
	}
}

// TestEvidence_Unknown: what no type knows is shown all the same, and nothing of
// it acts on the terminal.
func TestEvidence_Unknown(t *testing.T) {
	t.Parallel()
	for name, context := range map[string]string{
		"More":      `{"tool":"gh:x","arguments":{"a":1},"surprise":{"deep":"\u202eevil"}}`,
		"Shape":     `{"tool":"gh:x","arguments":"surprise","needs_installation":"yes","changed":"surprise","dependency":"surprise","next":"surprise"}`,
		"Twice":     `{"arguments":{"a":"hidden"},"arguments":{"a":"surprise"}}`,
		"NoContext": `null`,
	} {
		for typ := range map[core.ApprovalType]bool{
			core.ApproveTool: true, core.ApproveIntegrity: true, core.ApproveDependency: true, core.ApproveLayer: true,
			core.ApproveKeys: true, core.ApproveOAuth: true, core.ApproveInDoubt: true, core.ApproveHook: true, "new": true,
		} {
			a := core.Approval{Type: typ, Tool: "gh:x", Context: json.RawMessage(context), Digest: "sha256:d"}
			text := plainEvidence(a, nil)
			if name != "NoContext" && !strings.Contains(text, "surprise") {
				t.Errorf("%s %s: hidden:\n%s", name, typ, text)
			}
			if strings.Contains(text, "\u202e") {
				t.Errorf("%s %s: a mark acts:\n%q", name, typ, text)
			}
		}
	}
}

// TestEvidence_OnlyReads: the question whether tools only read says how one is asked each time.
func TestEvidence_OnlyReads(t *testing.T) {
	t.Parallel()
	p := newPerson(t, 100, 40)
	p.change(apIntegrity, func(a *core.Approval) {
		a.Tool = "db"
		a.Context = raw(map[string]any{"tool": "db", "fqdn_base": "db", "kind": "readonly", "new_hash": "sha256:9f04", "changed": []string{"+ list"}})
	})
	p.s.overlay.open(cardOf(apIntegrity, p.s.env(p.now)))
	p.sees("they run without a question")
	p.sees("pml permissions ask 'db:*'")
	p.change(apIntegrity, func(a *core.Approval) {
		a.Context = raw(map[string]any{"tool": "db", "fqdn_base": "x';id;'", "kind": "readonly", "new_hash": "sha256:9f04", "changed": []string{"+ list"}})
	})
	p.sees(`pml permissions ask 'x'\'';id;'\'':*'`)
}
