package install_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/install"
)

// What else a tool says counts, is kept and is shown; a tool that says nothing
// else has the digest of its fields alone.
func TestToolDigest_Rest(t *testing.T) {
	t.Parallel()
	plain := core.Tool{Name: "t", Description: "x"}
	if fields, err := core.DigestOf(plain); err != nil || install.ToolDigest(plain) != fields {
		t.Errorf("%s is not %s (%v)", install.ToolDigest(plain), fields, err)
	}
	more := plain
	more.Rest = json.RawMessage(`{"_meta":{"note":"new words"}}`)
	digest := install.ToolDigest(more)
	if digest == install.ToolDigest(plain) {
		t.Error("what else it says does not count")
	}
	spaced := plain
	spaced.Rest = json.RawMessage(`{ "_meta": {"note":"new words"} }`)
	if install.ToolDigest(spaced) != digest {
		t.Error("spaces count")
	}
	if lines := strings.Join(install.DescribeChange(plain, more), "\n"); !strings.Contains(lines, "new words") {
		t.Errorf("not shown: %s", lines)
	}
	home := t.TempDir()
	if err := newFake(home, nil).Definitions.Keep(more); err != nil {
		t.Fatal(err)
	}
	if got, ok := newFake(home, nil).Definitions.Known(digest); !ok || string(got.Rest) != string(more.Rest) {
		t.Errorf("%s %t", got.Rest, ok)
	}
}
