package gate_test

import (
	"testing"
	"time"
)

// standing is a clock that stands still: everything happens at the same moment.
type standing struct{}

func (standing) Now() time.Time { return time.Unix(1_700_000_000, 0) }

// TestSettings_AfterAnAnswer: a key that was changed before a call was answered holds
// for the next call, however short the time since the files were looked at.
func TestSettings_AfterAnAnswer(t *testing.T) {
	t.Parallel()
	p := settle(t, allow)
	p.write(".env", "API_KEY=first-value-of-it\n")
	p.clock = standing{}
	p.trust().open()
	answer := func(key string) string {
		t.Helper()
		p.write(".env", "API_KEY="+key+"\n")
		call := p.call("keyed:read", "{}")
		raw, err := p.Call(t.Context(), call, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	p.want("keyed:read", "{}", "ok")
	first, second := answer("first-value-of-it"), answer("second-value-of-it")
	if first == second {
		t.Errorf("both calls were made by the server with the first key: %s", second)
	}
}
