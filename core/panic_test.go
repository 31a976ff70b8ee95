package core_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
)

type brokenLog struct{ slog.Handler }

func (brokenLog) Enabled(context.Context, slog.Level) bool { return true }

func (brokenLog) Handle(context.Context, slog.Record) error { panic("the log, too") }

func TestRecover(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	for name, log := range map[string]*slog.Logger{"Log": slog.New(slog.NewTextHandler(&text, nil)), "BrokenLog": slog.New(brokenLog{})} {
		var told *core.Error
		func() {
			defer core.Recover(log, "a server was asked", func(err *core.Error) { told = err }, "server", "files")
			panic("a secret")
		}()
		if told == nil || told.Code != core.CodeInternal || !strings.Contains(told.Message, "while a server was asked") || strings.Contains(told.Message, "secret") {
			t.Errorf("%s: told %v", name, told)
		}
	}
	for _, want := range []string{"a secret", "panic_test.go", "server=files"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the log has no %q:\n%s", want, &text)
		}
	}
	func() {
		defer core.Recover(slog.New(brokenLog{}), "nothing was done", nil)
	}()
}
