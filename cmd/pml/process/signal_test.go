//go:build unix

package process

import (
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/casys-ai/pml/cli/app"
)

// TestHeed: signals that come together are one, a later one ends the process.
func TestHeed(t *testing.T) {
	t.Parallel()
	start := time.Now()
	times := []time.Duration{0, time.Millisecond, 499 * time.Millisecond, 500 * time.Millisecond, time.Minute}
	ch := make(chan os.Signal, len(times))
	for _, s := range []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGTERM, syscall.SIGINT, syscall.SIGTERM} {
		ch <- s
	}
	close(ch)
	n := -1
	now := func() time.Time {
		n++
		return start.Add(times[n])
	}
	var causes []error
	var exits []int
	heed(ch, now, func(err error) { causes = append(causes, err) }, func(code int) { exits = append(exits, code) })
	if !slices.Equal(causes, []error{app.Signal{Code: 143}}) || !slices.Equal(exits, []int{130, 143}) {
		t.Errorf("cancelled with %v, ended with %v", causes, exits)
	}
}
