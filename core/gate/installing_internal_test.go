package gate

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/install"
)

// A large tree has longer than a small one, and the error says why it is so long.
func TestInstalling_GrowsWithTheTree(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &settings{granted: &env.Config{Limits: env.Limits{Install: time.Minute}}}
		begun := time.Now()
		ctx, cancel := s.installing(t.Context(), install.Resolved{Packages: make([]install.Package, 637)})
		defer cancel()
		<-ctx.Done()
		if took := time.Since(begun); took != 4*time.Minute {
			t.Errorf("it ended after %s", took)
		}
		if err := context.Cause(ctx); !strings.Contains(err.Error(), "within 4m0s (limits.install, which is 1m0s here and grows with the 637 packages)") {
			t.Error(err)
		}
	})
}
