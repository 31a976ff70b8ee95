package env_test

import (
	"testing"
	"time"

	"github.com/casys-ai/pml/core/env"
)

// npm's time grows with the tree, in steps of the setting; none stays none.
func TestLimits_InstallFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		set      time.Duration
		packages int
		want     time.Duration
	}{
		{15 * time.Minute, 0, 15 * time.Minute},
		{15 * time.Minute, 200, 15 * time.Minute},
		{15 * time.Minute, 201, 30 * time.Minute},
		{time.Minute, 637, 4 * time.Minute},
		{0, 637, 0},
	} {
		if got := (env.Limits{Install: c.set}).InstallFor(c.packages); got != c.want {
			t.Errorf("%s for %d packages: %s, want %s", c.set, c.packages, got, c.want)
		}
	}
}
