//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd)

package keeper

import "os"

// Keeper does nothing here: a console is left to its own means.
type Keeper struct{}

// New returns a Keeper that does nothing.
func New(_, _ *os.File, _ string) *Keeper { return &Keeper{} }

// Taken does nothing.
func (*Keeper) Taken(bool) {}

// Start does nothing.
func (*Keeper) Start() {}

// Close does nothing.
func (*Keeper) Close() {}
