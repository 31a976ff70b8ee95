package gate

import "testing"

func TestProgressText(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]struct {
		message     string
		done, total float64
	}{
		"half way": {"half way", 2, 4},
		"2 of 4":   {"", 2, 4},
		"50 %":     {"", 0.5, 1},
		"33 %":     {"", 1.25, 3.75},
		"7":        {"", 7, 0},
		"0.25":     {"", 0.25, -1},
	} {
		if got := progressText(p.message, p.done, p.total); got != want {
			t.Errorf("%+v: %q, want %q", p, got, want)
		}
	}
}
