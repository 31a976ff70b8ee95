package app

import (
	"slices"

	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// Column is a column of a table over items of a type.
type Column[T any] struct {
	Title string
	Wide  bool // with -o wide only
	Get   func(T) string
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

// tableOf lays items out in columns aligned by display width. On a terminal
// lines are cut to its width, except with -o wide; in a pipe nothing is cut.
func tableOf[T any](a *App, items []T, cols []Column[T]) string {
	wide := a.Format() == formatWide
	var rows [][]string
	var head []string
	for _, c := range cols {
		if wide || !c.Wide {
			head = append(head, c.Title)
		}
	}
	rows = append(rows, head)
	for _, it := range items {
		var row []string
		for _, c := range cols {
			if wide || !c.Wide {
				row = append(row, core.Visible(c.Get(it), 0, false))
			}
		}
		rows = append(rows, row)
	}
	limit := 0
	if a.StdoutTTY && !wide {
		limit = a.Width()
	}
	return layout.Align(rows, limit)
}
