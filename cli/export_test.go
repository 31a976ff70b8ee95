package cli

import (
	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
)

// Root returns the tree of commands, for tests.
func Root(d app.Deps) *cobra.Command { return root(app.New(d)) }
