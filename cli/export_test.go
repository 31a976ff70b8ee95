package cli

import (
	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
)

// Root returns the tree of commands, for tests.
func Root(d app.Deps) *cobra.Command { return root(app.New(d)) }

// HelpTexts is the help of every command, by its path.
func HelpTexts() map[string]string {
	a := app.New(app.Deps{})
	out := map[string]string{}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		c.InitDefaultHelpFlag()
		out[c.CommandPath()] = helpText(a, c)
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root(a))
	return out
}
