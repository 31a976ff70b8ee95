package upstream_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
)

// usage is what many programs print behind their error.
const usage = "Usage:\n  kubernetes-mcp-server [command] [options] [flags]\n\nFlags:\n"

// failing is a child that ends with a page of usage between two texts.
func failing(before, after string) func(*child) {
	return func(*child) {
		fmt.Fprint(os.Stderr, before+usage+strings.Repeat("      --flag string   what it does\n", 30)+after)
		os.Exit(1)
	}
}

// What a server says of its end begins with the cause, however much it has
// printed behind it.
func TestLastWords(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{
		"usage":      "it said:\nError: invalid configuration: no configuration has been provided\n…\n      --flag",
		"usage-weak": "it said:\nkubeconfig could not be loaded\n…\n      --flag",
		"usage-last": "it last said:\n      --flag",
		"usage-only": "it last said:\n      --flag",
		"usage-old":  "it last said:\n      --flag",
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			m, l := newManager(t, nil), launch(t, mode)
			_, err := m.Tools(context.Background(), l)
			wantCode(t, err, core.CodeServerUnreachable, want)
			if h, _ := m.Health(l.Name, l.Workspace); strings.Contains(want, "…") != strings.Contains(h.Stderr, "\n…\n") {
				t.Errorf("its health has %q", h.Stderr)
			}
			if mode == "usage-last" && !strings.HasSuffix(err.Error(), "Error: no kubeconfig") {
				t.Error(err)
			}
		})
	}
}
