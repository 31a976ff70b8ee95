package sandbox_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core/sandbox"
)

// localized are the parts of the language that depend on a country's language or zone. Each
// gives what node gives in UTC, or an error that says what to use: never the text of another
// language or zone.
var localized = []struct {
	expression string
	result     string // as JSON
	err        string // a part of the error's text
}{
	{expression: `typeof Intl`, result: `"undefined"`},
	{expression: `"Intl" in globalThis`, result: `false`},
	{expression: `new Intl.NumberFormat("de").format(1)`, err: "use toISOString, toFixed and localeCompare"},
	{expression: `Intl.DateTimeFormat().resolvedOptions().timeZone`, err: "use toISOString, toFixed and localeCompare"},
	{expression: `["a10", "a9"].sort(new Intl.Collator(undefined, {numeric: true}).compare)`, err: "use toISOString, toFixed and localeCompare"},
	{expression: `new Intl.PluralRules("en").select(1)`, err: "use toISOString, toFixed and localeCompare"},
	{expression: `new Intl.ListFormat("en").format(["a"])`, err: "use toISOString, toFixed and localeCompare"},
	{expression: `new Intl.RelativeTimeFormat("en").format(1, "day")`, err: "use toISOString, toFixed and localeCompare"},
	{expression: `new Intl.Segmenter("en").segment("a b")`, err: "use toISOString, toFixed and localeCompare"},
	{expression: `Intl.supportedValuesOf("timeZone")`, err: "use toISOString, toFixed and localeCompare"},
	{expression: `(({DisplayNames}) => DisplayNames)(Intl)`, err: "use toISOString, toFixed and localeCompare"},
	{expression: `globalThis.Intl.NumberFormat("de")`, err: "there is no Intl"},
	{expression: `typeof Temporal`, result: `"undefined"`},
	{expression: `Temporal.Now`, err: "use Date"},

	{expression: `new Date(0).toLocaleString()`, err: "use ISO texts"},
	{expression: `new Date(0).toLocaleString("de-DE", {timeZone: "Europe/Berlin"})`, err: "add its offset"},
	{expression: `new Date(0).toLocaleDateString("en-US", {timeZone: "America/New_York"})`, err: "use ISO texts"},
	{expression: `new Date(0).toLocaleTimeString([], {hour: "2-digit"})`, err: "use ISO texts"},
	{expression: `Date.prototype.toLocaleString.call(new Date(0))`, err: "use ISO texts"},
	{expression: `[new Date(0)].toLocaleString("de")`, err: "use ISO texts"},
	{expression: `new Date(0).getTimezoneOffset()`, result: `0`},
	{expression: `new Date(2024, 6, 1).toISOString()`, result: `"2024-07-01T00:00:00.000Z"`},
	{expression: `new Date("2024-07-01T12:00").toISOString()`, result: `"2024-07-01T12:00:00.000Z"`},
	{expression: `new Date("2024-01-01T00:00:00+02:00").toISOString()`, result: `"2023-12-31T22:00:00.000Z"`},
	{expression: `new Date(0).toDateString()`, result: `"Thu Jan 01 1970"`},
	{expression: `["März 1 2026", "Q3 2026", "1/2026", "Okt 1, 2026 10:30"].map((s) => [Date.parse(s), new Date(s).getTime()].join()).join()`, result: `"NaN,NaN,NaN,NaN,NaN,NaN,NaN,NaN"`},
	{expression: `["Mar 1 2026", "1 March 2026", "3/1/2026", "10:45 3/1/2026", "2026-03"].map((s) => new Date(s).toISOString().slice(0, 10)).join()`, result: `"2026-03-01,2026-03-01,2026-03-01,2026-03-01,2026-03-01"`},
	{expression: `[Date.length, Date.parse.length, new Date(2026).getTime(), new Date(new Date(5)).getTime()]`, result: `[7,1,2026,5]`},

	{expression: `(5).toLocaleString()`, err: "use toFixed(2)"},
	{expression: `(1234.5).toLocaleString("de-DE", {style: "currency", currency: "EUR"})`, err: "use toFixed(2)"},
	{expression: `1n.toLocaleString("de")`, err: "use String(n)"},
	{expression: `[1.5].toLocaleString()`, err: "use toFixed(2)"},
	{expression: `new Float64Array([1.5]).toLocaleString()`, err: "use toFixed(2)"},
	{expression: `["a", "b"].toLocaleString()`, result: `"a,b"`},
	{expression: `({}).toLocaleString()`, result: `"[object Object]"`},
	{expression: `true.toLocaleString()`, result: `"true"`},

	{expression: `"I".toLocaleLowerCase() + "i".toLocaleUpperCase()`, result: `"iI"`},
	{expression: `"I".toLocaleLowerCase("tr")`, err: "use toLowerCase()"},
	{expression: `"i".toLocaleUpperCase(["tr"])`, err: "use toUpperCase()"},
	{expression: `["b", "A", "a", "B", "10", "9"].sort((x, y) => x.localeCompare(y)).join()`, result: `"10,9,a,A,b,B"`},
	{expression: `["a".localeCompare("B", "en"), "a".localeCompare("B", "en-US"), "a".localeCompare("B", ["en-GB", "de"])]`, result: `[-1,-1,-1]`},
	{expression: `"a10".localeCompare("a9", "en-u-kn-true")`, err: "takes no language"},
	{expression: `"a".localeCompare("b", "enm")`, err: "takes no language"},
	{expression: `"a".localeCompare("b", "sv")`, err: "takes no language"},
	{expression: `"a".localeCompare("B", "en", {sensitivity: "base"})`, err: "no options"},
	{expression: `"ä".localeCompare("z")`, err: "the order of ASCII texts only"},
	{expression: `["e\u0301".normalize("NFC").length, "\u00e9".normalize("NFD").length]`, result: `[1,2]`},
}

func TestLocalized(t *testing.T) {
	t.Parallel()
	p := newPool(t, patientLimits)
	for _, tt := range localized {
		t.Run(tt.expression, func(t *testing.T) {
			t.Parallel()
			source := "return " + tt.expression
			c, err := p.Compile(t.Context(), source, "test.ts")
			if err != nil {
				t.Fatal(err)
			}
			s, turn, err := p.Open(t.Context(), sandbox.Start{Script: c.Script, Source: source, Seed: "seed", Now: epoch, Input: json.RawMessage("null")})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			switch {
			case tt.err == "" && (turn.Err != nil || string(turn.Result) != tt.result):
				t.Errorf("%s, %v; want %s", turn.Result, turn.Err, tt.result)
			case tt.err != "" && (turn.Err == nil || !strings.Contains(turn.Err.Message, tt.err)):
				t.Errorf("%s, %v; want an error with %q", turn.Result, turn.Err, tt.err)
			}
		})
	}
}
