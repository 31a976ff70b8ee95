// Package plain is the terminal for screen readers and dumb terminals: a
// dialogue of lines, without any redrawing, with the same decisions.
package plain

import (
	"context"
	"io"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/feed"
)

// Options are what the dialogue is made of.
type Options struct {
	Backend feed.Backend
	// Links is as in feed.Options.
	Links func(ctx context.Context, f func(feed.Link))
	Clock core.Clock
	In    io.Reader
	Out   io.Writer
	User  string // who decides, as the audit log names them
	// Because says why the mode is on, as in "via --plain".
	Because string
	// Secret reads a PIN without echo; nil: In has it as a line.
	Secret func(ctx context.Context, prompt string) (string, error)
	// OpenURL opens an address in the browser; nil: it cannot.
	OpenURL func(ctx context.Context, url string) error
}

// Run talks until the person leaves, In ends or the context does. Runs that this
// process has taken over stop resumable; their ids are returned.
func Run(ctx context.Context, o Options) (left []core.ID, err error) {
	return nil, core.Errorf(core.CodeInternal, "the dialogue is not there yet")
}
