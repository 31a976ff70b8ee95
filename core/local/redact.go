package local

import (
	"context"
	"log/slog"
)

// redacting is a log handler that takes the values of keys out of every
// message and attribute: servers write what they like to their stderr.
type redacting struct {
	slog.Handler
	redact func(string) string
}

// Handle implements slog.Handler.
func (h redacting) Handle(ctx context.Context, r slog.Record) error {
	out := slog.NewRecord(r.Time, r.Level, h.redact(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(h.attr(a))
		return true
	})
	return h.Handler.Handle(ctx, out)
}

// WithAttrs implements slog.Handler.
func (h redacting) WithAttrs(attrs []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		clean[i] = h.attr(a)
	}
	return redacting{h.Handler.WithAttrs(clean), h.redact}
}

// WithGroup implements slog.Handler.
func (h redacting) WithGroup(name string) slog.Handler {
	return redacting{h.Handler.WithGroup(name), h.redact}
}

func (h redacting) attr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		group := v.Group()
		clean := make([]any, len(group))
		for i, g := range group {
			clean[i] = h.attr(g)
		}
		return slog.Group(a.Key, clean...)
	}
	switch v.Kind() {
	case slog.KindString, slog.KindAny:
		return slog.String(a.Key, h.redact(v.String()))
	case slog.KindBool, slog.KindDuration, slog.KindFloat64, slog.KindInt64, slog.KindTime, slog.KindUint64, slog.KindGroup, slog.KindLogValuer:
	}
	return a
}

// redact takes out what any of the workspaces in use declares as a key.
func (s *shared) redact(text string) string {
	s.hostsMu.RLock()
	defer s.hostsMu.RUnlock()
	for _, h := range s.hosts {
		text = h.Redact(text)
	}
	return text
}
