package core_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
)

func digestOfText(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// TestDigest_Canonical compares with the canonical text, which RFC 8785 gives
// for its own examples (§3.2.2, §3.2.3).
func TestDigest_Canonical(t *testing.T) {
	t.Parallel()
	for in, canonical := range map[string]string{
		`{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}`: `{"literals":[null,true,false],"numbers":[333333333.33333329,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
		`{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}`:                                                                                         "{\"\\r\":2,\"1\":4,\"\u0080\":6,\"ö\":7,\"€\":1,\"😀\":5,\"\ufb33\":3}",
		` { "b" : 1 , "a" : [ ] } `: `{"a":[],"b":1}`,
		`-0`:                        `0`,
		`1.0`:                       `1`,
		`100e-2`:                    `1`,
		``:                          `null`,
		`"<&>\u2028"`:               "\"<&>\u2028\"",
	} {
		got, err := core.Digest(json.RawMessage(in))
		if err != nil || got != digestOfText(canonical) {
			t.Errorf("%s is not %s: %v", in, canonical, err)
		}
	}
}

// Two numbers that differ never share a digest, however close they are.
func TestDigest_Numbers(t *testing.T) {
	t.Parallel()
	different := []string{
		"9007199254740992", "9007199254740993", "9007199254740994", "0.1", "0.10000000000000001", "0.1000000000000000055511151231257827",
		"1e400", "1e401", "-1e400", "123456789012345678901234567890", "123456789012345678901234567891", "1e-400", "1e-900", "0", "4e-324", "5e-324",
	}
	seen := map[string]string{}
	for _, n := range different {
		d, err := core.Digest(json.RawMessage(n))
		if err != nil {
			t.Fatal(n, err)
		}
		if other, ok := seen[d]; ok {
			t.Errorf("%s and %s have one digest", n, other)
		}
		seen[d] = n
	}
}

func TestDigest_NotJSON(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"{", "nope", `{"a":}`, `1 2`, `{} x`, `0}`, `[1]]`} {
		if _, err := core.Digest(json.RawMessage(in)); core.CodeOf(err) != core.CodeInvalidArguments {
			t.Errorf("%s: %v", in, err)
		}
	}
}

func TestVisible(t *testing.T) {
	t.Parallel()
	cases := []struct {
		in        string
		max       int
		multiline bool
		want      string
	}{
		{"plain ünï 漢字 😀", 0, false, "plain ünï 漢字 😀"},
		{"\x1b[31mred\x07", 0, false, `\x1b[31mred\x07`},
		{"a\nb\tc\rd", 0, false, `a\nb\tc\rd`},
		{"a\nb\tc\rd", 0, true, "a\nb\tc\\rd"},
		{"evil\u202etxt.exe", 0, false, `evil\u{202e}txt.exe`},
		{"zero\u200bwidth\ufeff", 0, false, `zero\u{200b}width\u{feff}`},
		{"c1\u009b31m", 0, false, `c1\u{9b}31m`},
		{"tag\U000e0041", 0, false, `tag\u{e0041}`},
		{"bad\xff\xfe", 0, false, `bad\xff\xfe`},
		{"line\u2028sep", 0, true, `line\u{2028}sep`},
		{"abcdef", 3, false, "abc… (3 more bytes)"},
		{"漢字漢字", 2, false, "漢字… (6 more bytes)"},
		{"abc", 3, false, "abc"},
		{"", 1, false, ""},
	}
	for _, c := range cases {
		if got := core.Visible(c.in, c.max, c.multiline); got != c.want {
			t.Errorf("%q: %q, want %q", c.in, got, c.want)
		}
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	names := []string{"read_file", "write_file", "list_directory", "stat"}
	for in, want := range map[string][]string{
		"raed_file": {"read_file"}, "READ_FILE": {"read_file"}, "write_flie": {"write_file"}, "directory": {"list_directory"},
		"sta": {"stat"}, "zzzzzzzzz": nil, "stat": nil,
	} {
		if diff := cmp.Diff(want, core.Nearest(in, names, 2)); diff != "" {
			t.Errorf("%s: %s", in, diff)
		}
	}
	if got := core.Suggest("sta", names); got != " (did you mean stat?)" {
		t.Errorf("%q", got)
	}
	if got := core.Suggest("zzzzzzzzz", names); got != "" {
		t.Errorf("%q", got)
	}
}

// TestCanMove is the table of transitions as design and screens have it.
func TestCanMove(t *testing.T) {
	t.Parallel()
	allowed := map[core.RunState]string{
		core.RunRunning:     "running waiting interrupted complete failed aborted",
		core.RunWaiting:     "running waiting interrupted complete failed aborted expired",
		core.RunInterrupted: "running waiting interrupted aborted expired",
		core.RunFailed:      "running",
		core.RunComplete:    "running",
	}
	for _, from := range core.RunStates {
		for _, to := range core.RunStates {
			want := strings.Contains(" "+allowed[from]+" ", " "+string(to)+" ")
			if got := core.CanMove(from, to); got != want {
				t.Errorf("%s to %s: %v", from, to, got)
			}
		}
		if want := !strings.Contains("running waiting interrupted", string(from)); from.Final() != want {
			t.Errorf("%s final: %v", from, from.Final())
		}
	}
}

func TestError_JSON(t *testing.T) {
	t.Parallel()
	want := &core.Error{
		Code: core.CodeToolFailed, Message: "it failed", Next: []string{"pml", "retry", "7f3a"}, Location: &core.Position{Line: 3, Column: 7},
		RunID: "r", Faults: []core.Fault{{File: "f.ts", Path: "/tasks/0", At: &core.Position{Line: 1, Column: 2}, Message: "m"}},
		Failures: []core.Failure{{TaskID: "t", Tool: "a:b", Code: core.CodeTimeout, Error: "e"}},
		Decided:  &core.DecidedBy{Actor: core.Actor{Who: "me", Via: core.ViaCLI}, At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Reason: "r"}, Stack: "at f",
	}
	raw, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got core.Error
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Error(), got.Error()); diff != "" {
		t.Error(diff)
	}
	again, err := json.Marshal(&got)
	if err != nil || string(again) != string(raw) {
		t.Errorf("%s\n%s", raw, again)
	}
	if got.Error() != "it failed\n  f.ts:1:2:/tasks/0: m" {
		t.Errorf("%q", got.Error())
	}
}

func TestError_Codes(t *testing.T) {
	t.Parallel()
	cause := errors.New("cause")
	e := core.Errorf(core.CodeStoreFailed, "cannot write: %w", cause)
	wrapped := fmt.Errorf("more: %w", e)
	if !errors.Is(wrapped, cause) || !errors.Is(wrapped, &core.Error{Code: core.CodeStoreFailed}) || errors.Is(wrapped, &core.Error{Code: core.CodeTimeout}) {
		t.Error("Is")
	}
	if core.CodeOf(wrapped) != core.CodeStoreFailed || core.CodeOf(cause) != core.CodeInternal || core.CodeOf(nil) != "" {
		t.Error("CodeOf")
	}
	if core.AsError(nil) != nil || core.AsError(cause).Code != core.CodeInternal || core.AsError(wrapped) != e {
		t.Error("AsError")
	}
	if c := e.WithNext("pml").WithRun("r"); len(e.Next) != 0 || e.RunID != "" || c.RunID != "r" || len(c.Next) != 1 {
		t.Error("With changes the original")
	}
}

// Scenario 12: an approval past its time is expired at once, whoever looks.
func TestApproval_StateAt(t *testing.T) {
	t.Parallel()
	end := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		state core.ApprovalState
		ends  *time.Time
		at    time.Time
		want  core.ApprovalState
	}{
		{core.ApprovalOpen, &end, end.Add(-1), core.ApprovalOpen},
		{core.ApprovalOpen, &end, end, core.ApprovalExpired},
		{core.ApprovalOpen, nil, end.AddDate(100, 0, 0), core.ApprovalOpen},
		{core.ApprovalApproved, &end, end.Add(1), core.ApprovalApproved},
		{core.ApprovalDenied, &end, end.Add(1), core.ApprovalDenied},
		{core.ApprovalSuperseded, &end, end.Add(1), core.ApprovalSuperseded},
	} {
		if got := (core.Approval{State: c.state, ExpiresAt: c.ends}).StateAt(c.at); got != c.want {
			t.Errorf("%s at %s: %s, want %s", c.state, c.at, got, c.want)
		}
	}
}

func FuzzDigest(f *testing.F) {
	for _, s := range []string{`{"a":1}`, `[1e400,"\ud800"]`, `{"a":{"b":[null]}}`, `-0.0`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, err := core.Digest(raw)
		if err != nil {
			return
		}
		var compact json.RawMessage
		var v any
		dec := json.NewDecoder(strings.NewReader(string(raw)))
		dec.UseNumber()
		if dec.Decode(&v) != nil {
			return
		}
		if compact, err = json.Marshal(v); err != nil {
			t.Fatal(err)
		}
		if again, err := core.Digest(compact); err != nil || again != d {
			t.Errorf("%q: %s, encoded anew %s (%v)", raw, d, again, err)
		}
	})
}
