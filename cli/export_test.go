package cli

import (
	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/core"
)

// For tests of the package from outside.
var (
	ExitCodes   = exitCodes
	StatusCodes = statusCodes
	YAMLOf      = yamlOf
	TextWidth   = width
	ShellQuote  = shellQuote
)

// Root returns the tree of commands.
func Root(d Deps) *cobra.Command { return newApp(d).root() }

// YAMLToJSON converts a document and answers where a pointer is.
func YAMLToJSON(data []byte) ([]byte, func(string) *core.Position, error) {
	doc, err := parseYAML(data)
	return doc.json, doc.places, err
}
