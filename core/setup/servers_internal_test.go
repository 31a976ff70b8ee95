package setup

import (
	"testing"

	"github.com/casys-ai/pml/core/api"
)

// The audit log tells a package's first version from a newer one.
func TestInstalledAs(t *testing.T) {
	t.Parallel()
	for want, u := range map[string]api.Update{"installed ": {To: "1.0.0"}, "updated to ": {From: "1.0.0", To: "1.1.0"}} {
		if got := installedAs(u); got != want {
			t.Errorf("%+v is said as %q", u, got)
		}
	}
}
