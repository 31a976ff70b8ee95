package repository_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"testing"
)

// TestSizes: a reader can hold a type, a file and a folder in his head.
func TestSizes(t *testing.T) {
	t.Parallel()
	const mostMethods, mostLines, mostFiles = 60, 800, 40
	methods, files := map[string]int{}, map[string]int{}
	eachFile(t, func(file string, test bool) {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(raw, []byte("\n")); n > mostLines {
			t.Errorf("%s has %d lines, more than %d", file, n, mostLines)
		}
		if test {
			return
		}
		files[path.Dir(file)]++
		f, err := parser.ParseFile(token.NewFileSet(), file, raw, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
				methods[path.Dir(file)+"."+receiver(fn)]++
			}
		}
	})
	if len(methods) == 0 {
		t.Fatal("no method was found")
	}
	for name, n := range methods {
		if n > mostMethods {
			t.Errorf("%s has %d methods, more than %d", name, n, mostMethods)
		}
	}
	for dir, n := range files {
		if n > mostFiles {
			t.Errorf("%s has %d files besides tests, more than %d", dir, n, mostFiles)
		}
	}
}
