package oauth_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/oauth/oauthtest"
)

// A file of credentials that another process has replaced counts for the next
// request, even one of the same age and size; so does one that others may read.
func TestHeader_FileReplaced(t *testing.T) {
	t.Parallel()
	h := newHarness(t, oauthtest.Behaviour{})
	c := h.client()
	h.connect(c)
	var file string
	files, err := filepath.Glob(filepath.Join(h.dir, "*.json"))
	for _, f := range files {
		file = f
	}
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	old := h.clock.Now().Add(-time.Hour)
	if err := os.Chtimes(file, old, old); err != nil {
		t.Fatal(err)
	}
	first := h.header(c)
	if again := h.header(c); again != first {
		t.Fatalf("%q, then %q", first, again)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	token := []byte(first[len("Bearer "):])
	other := bytes.Repeat([]byte("x"), len(token))
	next := filepath.Join(t.TempDir(), "next")
	if err := os.WriteFile(next, bytes.ReplaceAll(text, token, other), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(next, old, old); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, file); err != nil {
		t.Fatal(err)
	}
	if got := h.header(c); got != "Bearer "+string(other) {
		t.Errorf("%q after the file was replaced", got)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = c.Authorizer(h.server()).Header(context.Background())
	h.wantCode(err, core.CodeStoreFailed)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if got := h.header(c); got != "" {
		t.Errorf("%q without credentials", got)
	}
}
