package install

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
)

// A panic while files are hashed, which others do at the same time, is the error
// of the installation or of the check.
func TestHashTree_Panic(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	in := New(Options{Home: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	_, err := in.hashTree(t.TempDir(), []treeFile{{path: "of which nothing is known"}}, false)
	if core.CodeOf(err) != core.CodeInternal || !strings.Contains(err.Error(), "inside pml") {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "tree.go") {
		t.Errorf("the log has no stack:\n%s", &log)
	}
}
