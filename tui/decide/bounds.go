package decide

import (
	"strconv"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
)

// MoreCalls is the next count of calls that one key press leads to: small steps where there
// are few.
func MoreCalls(n int) int {
	step := callStep(n)
	return min(n/step*step+step, approval.MaxShapeCalls)
}

// FewerCalls is the way back of MoreCalls.
func FewerCalls(n int) int {
	step := callStep(n - 1)
	return max((n-1)/step*step, 1)
}

func callStep(n int) int {
	switch {
	case n < 10:
		return 1
	case n < 50:
		return 5
	case n < 200:
		return 10
	}
	return 100
}

// Bind has an approval be about the calls of a loop within bounds; nil: about its own call
// alone. What was on screen and what was typed was for something else.
func (c *Card) Bind(s *core.Shape) { c.shape, c.read, c.typed = s, false, "" }

// Shape are the bounds that an approval would give; nil where it is about one call.
func (c *Card) Shape() *core.Shape { return c.shape }

// lockBounds says why a decision cannot be taken while bounds are shown.
func (c *Card) lockBounds(v Verb, now time.Time) string {
	switch s := c.shape; {
	case s == nil:
		return ""
	case v == Remember:
		return "bounds are for this run: nothing else is remembered with them"
	case v != Approve:
		return "bounds are approved, or left with esc: the call itself is denied on its card"
	case s.Until != nil && !s.Until.After(now):
		return "the bounds ended at " + s.Until.In(now.Location()).Format(time.TimeOnly) + ": change until"
	}
	return ""
}

// boundsCommand is the command line that gives the same bounds.
func boundsCommand(a core.Approval, s core.Shape) []string {
	argv := []string{"pml", "approve", a.ID.Short(), "--shape", "--max", strconv.Itoa(s.Max)}
	if s.Until != nil {
		argv = append(argv, "--until", s.Until.UTC().Format(time.RFC3339))
	}
	for _, b := range s.Fields {
		what, value, _ := strings.Cut(approval.BoundLine(b), " ")
		switch what {
		case "is":
			argv = append(argv, "--fix", b.Name+"="+value)
		case "matches":
			argv = append(argv, "--match", b.Name+"="+b.Matches)
		default:
			argv = append(argv, "--free", b.Name)
		}
	}
	return argv
}
