package repository_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// TestDocs_Packages: every package says what it is for.
func TestDocs_Packages(t *testing.T) {
	t.Parallel()
	documented := map[string]bool{}
	eachFile(t, func(file string, test bool) {
		if test {
			return
		}
		dir := path.Dir(file)
		documented[dir] = documented[dir] || parse(t, file).Doc != nil
	})
	for dir, ok := range documented {
		if !ok {
			t.Errorf("%s: no package comment", dir)
		}
	}
}

// TestDocs_Exported: every exported name has a doc comment. A constant or
// variable may share that of its group.
func TestDocs_Exported(t *testing.T) {
	t.Parallel()
	eachFile(t, func(file string, test bool) {
		if test {
			return
		}
		for _, name := range undocumented(parse(t, file)) {
			t.Errorf("%s: %s has no doc comment", file, name)
		}
	})
}

func TestDocs_Undocumented(t *testing.T) {
	t.Parallel()
	src := `package p
// A is documented.
type A struct{}
type B struct{}
func (A) Do() {}
func (b) Do() {}
func F() {}
func g() {}
// The group.
const (
	C = 1
)
var V = 1
`
	f, err := parser.ParseFile(token.NewFileSet(), "p.go", src, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(undocumented(f), " "); got != "B A.Do F V" {
		t.Errorf("undocumented = %q, want %q", got, "B A.Do F V")
	}
}

func undocumented(f *ast.File) []string {
	var names []string
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			recv := receiver(d)
			if d.Doc == nil && d.Name.IsExported() && (recv == "" || ast.IsExported(recv)) {
				names = append(names, strings.TrimPrefix(recv+"."+d.Name.Name, "."))
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				names = append(names, undocumentedSpec(s, d.Doc != nil)...)
			}
		}
	}
	return names
}

func undocumentedSpec(s ast.Spec, group bool) []string {
	var names []string
	switch s := s.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() && s.Doc == nil && !group {
			names = append(names, s.Name.Name)
		}
	case *ast.ValueSpec:
		for _, n := range s.Names {
			if n.IsExported() && s.Doc == nil && s.Comment == nil && !group {
				names = append(names, n.Name)
			}
		}
	}
	return names
}

// receiver returns the name of a method's type, "" for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return ""
	}
	e := d.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

func parse(t *testing.T, file string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// costs is the end of a line about a dependency: megabytes, and seconds if it
// is in the binary.
var costs = regexp.MustCompile(`\| <?\d+(\.\d+)? \|$`)

// TestDocs_Dependencies: every direct dependency has its line, and no line is
// about one that is gone.
func TestDocs_Dependencies(t *testing.T) {
	t.Parallel()
	_, doc, _ := strings.Cut(readText(t, "docs/dependencies.md"), "\n## In the binary\n") // before it: what comes with them
	direct := map[string]bool{}
	for line := range strings.Lines(readText(t, "go.mod")) {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(fields) >= 2 && strings.Contains(fields[0], ".") && strings.HasPrefix(fields[1], "v") && !strings.Contains(line, "// indirect") {
			direct[fields[0]] = true
		}
	}
	for dep := range direct {
		_, line, ok := strings.Cut(doc, "| `"+dep+"` |")
		if line, _, _ = strings.Cut(line, "\n"); !ok || !costs.MatchString(line) {
			t.Errorf("docs/dependencies.md has no line for %s, or it does not end with what the module costs: %q", dep, line)
		}
	}
	for line := range strings.Lines(doc) {
		if name, ok := strings.CutPrefix(line, "| `"); ok {
			name, _, _ = strings.Cut(name, "`")
			if !direct[name] {
				t.Errorf("docs/dependencies.md has a line for %s, which is no direct dependency", name)
			}
		}
	}
}

func TestDocs_Changelog(t *testing.T) {
	t.Parallel()
	text := readText(t, "CHANGELOG.md")
	if !strings.Contains(text, "\n## [Unreleased]") {
		t.Error("CHANGELOG.md has no section [Unreleased]")
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "<<<<<<< ") || strings.HasPrefix(line, ">>>>>>> ") || len(line) > 40 && strings.Count(text, line) > 1 {
			t.Errorf("CHANGELOG.md has what a merge left behind: %s", line)
		}
	}
}

func readText(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
