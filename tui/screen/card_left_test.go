package screen

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/decide"
)

// TestCard_LeftToRead: a card that was partly read in a larger window counts the lines that are
// left from the view on: each space makes them less.
func TestCard_LeftToRead(t *testing.T) {
	t.Parallel()
	p, _ := atLoop(t, core.RiskMedium, 80, 24, "one", "two", "three", "four", "five", "six")
	p.press("b")
	p.wait(decide.Quiet)
	p.frame()
	p.s.Resize(40, 10)
	more := regexp.MustCompile(`read on: (\d+) more lines?, at space`)
	for last := 1 << 30; ; p.press("space") {
		m := more.FindStringSubmatch(p.frame())
		if m == nil {
			if last > 1000 {
				t.Fatalf("nothing is left to read:\n%s", p.frame())
			}
			p.sees("was shown")
			return
		}
		n, err := strconv.Atoi(m[1])
		if err != nil || n >= last {
			t.Fatalf("%d lines are left, and before space %d\n%s", n, last, p.frame())
		}
		last = n
	}
}
