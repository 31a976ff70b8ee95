package launch_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core/launch"
)

// hand is a clock that stands until it is moved.
type hand struct{ at time.Time }

func (h *hand) Now() time.Time { return h.at }

var clock = &hand{time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}

var quiet = slog.New(slog.DiscardHandler)

// newFiles keeps hashes in a home, and finds no program on PATH.
func newFiles(home string) *launch.Files {
	return launch.NewFiles(launch.Options{Home: home, Clock: clock, Logger: quiet})
}

// specOf is what a command line is, cut at spaces.
func specOf(t *testing.T, line string) launch.Spec {
	t.Helper()
	words := strings.Fields(line)
	spec, err := launch.Recognize(launch.Command{Name: "s", Command: words[0], Args: words[1:]})
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func put(dir, name, content string) error {
	file := filepath.Join(dir, filepath.FromSlash(name))
	return errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(content), 0o600))
}
