package daemon_test

import (
	"strings"
	"testing"

	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/daemon"
)

func TestCompare(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		version  string
		protocol int
		want     string
	}{
		{"v1.2.3", api.Protocol, ""},
		{"v1.3.0", api.Protocol, ""},
		{"v1.2.2", api.Protocol, "older than this pml"},
		{"v1.2.2", api.Protocol + 1, "speaks protocol"},
		{"(devel)", api.Protocol, ""},
	} {
		got := daemon.Compare("v1.2.3", api.ServerStatus{Version: tt.version, Protocol: tt.protocol})
		if !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
			t.Errorf("%s, %d: %q", tt.version, tt.protocol, got)
		}
	}
}
