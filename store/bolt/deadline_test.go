package bolt

import (
	"testing"
	"time"
)

// Times that nanoseconds cannot count keep their order.
func TestTimeNumber(t *testing.T) {
	t.Parallel()
	last := uint64(0)
	for _, year := range []int{1, 1000, 1700, 1969, 2026, 2200, 2260, 2300, 9000, 50_000} {
		n := timeNumber(time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC))
		if n < last {
			t.Errorf("the year %d is before the one before it", year)
		}
		last = n
	}
}
