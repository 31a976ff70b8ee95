package daemon

import (
	"context"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// Status is Find with a warning of what this pml would say when it used the
// server: that it is older, or speaks another protocol.
func (d *Daemon) Status(ctx context.Context) (*Server, error) {
	s, err := d.Find(ctx)
	if err != nil || s == nil {
		return s, err
	}
	if _, err := d.accept(s); err != nil {
		s.Warning = core.AsError(err).Message
	}
	return s, nil
}

// Compare says what a person should know of a server elsewhere; empty: nothing.
func Compare(version string, s api.ServerStatus) string {
	theirs := core.Visible(s.Version, 60, false)
	switch {
	case s.Protocol != api.Protocol:
		return "it speaks protocol " + itoa(s.Protocol) + ", this pml " + itoa(api.Protocol) + ": use the same pml on both sides"
	case newer(version, s.Version):
		return "it is of version " + theirs + ", older than this pml (" + version + ")"
	}
	return ""
}
