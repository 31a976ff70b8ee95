package collect

import "testing"

func TestPercentFor(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]int{
		0: commandGC, 1 << 20: commandGC, 8 << 20: 200, 12 << 20: 100, roomToGrow: 100, 20 << 20: leastGC, 1 << 30: leastGC,
	} {
		if got := percentFor(live); got != want {
			t.Errorf("%d MB live: %d, want %d", live>>20, got, want)
		}
	}
}
