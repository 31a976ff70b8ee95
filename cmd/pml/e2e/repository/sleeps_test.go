package repository_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strings"
	"testing"
)

// TestSleeps: a test sleeps only by the clock of a synctest bubble, where it
// costs nothing and cannot come too early. Everything else waits for a signal.
func TestSleeps(t *testing.T) {
	t.Parallel()
	eachFile(t, func(file string, test bool) {
		if !test && !strings.HasSuffix(path.Dir(file), "test") {
			return
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			if i.Path.Value == `"testing/synctest"` {
				return
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Sleep" {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" {
					t.Errorf("%s: time.Sleep in a test outside synctest: wait for what the test needs", set.Position(n.Pos()))
				}
			}
			return true
		})
	})
}
