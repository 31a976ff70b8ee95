package app

import (
	"slices"

	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core/api"
)

// Column is a column of a table over items of a type.
type Column[T any] struct {
	Title string
	Wide  bool // with -o wide only
	Get   func(T) string
	Style func(T) layout.Style // nil: plain
	// Where a terminal is too narrow for the table, columns with Below 1 go under
	// their row, then those with Drop are left out, the highest first, then those
	// with Below 2 go under their row, and last those with Flex are cut. The last
	// column may have Rest: it takes the place that is left, and is cut before any of that.
	Below int
	Drop  int
	Flex  bool
	Rest  bool
}

// PrintList writes a list in any format. empty is what a person reads on
// stderr when there is nothing.
func PrintList[T any](a *App, page api.Page[T], empty string, cols []Column[T]) error {
	page.Warnings = append(page.Warnings, a.warned()...)
	if a.Human() || a.Format() == FormatJSONL { // elsewhere they are in the list itself
		for _, w := range slices.Concat(page.Warnings, page.Notices) {
			a.sayWarning(w)
		}
	}
	switch {
	case a.Format() == FormatJSONL:
		for _, it := range page.Items {
			if err := a.Encode(it, FormatJSONL); err != nil {
				return err
			}
		}
		return nil
	case !a.Human():
		if page.Items == nil {
			page.Items = []T{}
		}
		return a.Encode(page, a.Format())
	case len(page.Items) == 0:
		a.Note("%s", empty)
		return nil
	}
	if err := a.Write(tableOf(a, page.Items, cols)); err != nil {
		return err
	}
	if page.Next != "" {
		a.Note("more: add --cursor %s", layout.ShellQuote(page.Next))
	}
	return nil
}
