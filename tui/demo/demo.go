// Package demo is a backend that plays a script: all states of runs and all
// types of approval, for a first look without any set-up and for tests.
package demo

import (
	"context"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/feed"
)

// Backend is the demo's. It implements feed.Backend.
type Backend struct {
	feed.Backend
	clock core.Clock
}

// New returns a backend in the state in which the script begins.
func New(clock core.Clock) *Backend { return &Backend{clock: clock} }

// Play lets things happen until the context ends.
func (b *Backend) Play(ctx context.Context) { <-ctx.Done() }

// Links tells of the connections that the script pretends.
func (b *Backend) Links(ctx context.Context, f func(feed.Link)) {
	f(feed.Link{Side: core.SideClient, Up: true})
	f(feed.Link{Side: core.SideServer, Up: true, Name: "demo"})
}
