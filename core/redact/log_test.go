package redact_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core/redact"
)

func TestLog(t *testing.T) {
	t.Parallel()
	const key = "s3cret-value"
	var out bytes.Buffer
	h := redact.Log(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}), func(s string) string {
		return strings.ReplaceAll(s, key, "«KEY»")
	})
	log := slog.New(h).With("with", "a "+key).WithGroup("g").With("more", key)
	log.Info("message "+key, "text", key, "error", errors.New("failed with "+key), "n", 7,
		slog.Group("in", slog.String("deep", key)), "value", slog.AnyValue([]string{key}))
	if strings.Contains(out.String(), key) {
		t.Errorf("the key is in the log: %s", out.String())
	}
	if n := strings.Count(out.String(), "«KEY»"); n != 7 {
		t.Errorf("%d places were redacted, want 7: %s", n, out.String())
	}
	if !strings.Contains(out.String(), "g.n=7") {
		t.Errorf("other attributes are lost: %s", out.String())
	}
}
