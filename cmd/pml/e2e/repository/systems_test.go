package repository_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"

	"github.com/casys-ai/pml/core/skiptest"
)

// TestSystems type-checks the module, its tests included, for the systems that pml runs on and this machine is not.
// Nothing is compiled, which takes minutes for each: of dependencies the test reads what they declare. That it links
// is seen when a release is built.
func TestSystems(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "it reads all dependencies")
	for _, system := range []string{"darwin", "windows"} {
		t.Run(system, func(t *testing.T) {
			t.Parallel()
			faults, checked := typeCheck(t, system, "./...")
			for _, fault := range faults {
				t.Error(fault)
			}
			if checked < 50 {
				t.Errorf("%d packages were checked", checked)
			}
		})
	}
}

// typeCheck says what does not compile of the packages that a pattern names, and how many there are.
func typeCheck(t *testing.T, system, pattern string) (faults []packages.Error, checked int) {
	t.Helper()
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	found, err := packages.Load(&packages.Config{
		Context: t.Context(), Dir: root, Tests: true, Env: append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0"),
		Mode: packages.NeedName | packages.NeedModule | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps |
			packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedTypesSizes,
		ParseFile: func(files *token.FileSet, name string, source []byte) (*ast.File, error) {
			file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
			if file != nil && !strings.HasPrefix(name, root+string(filepath.Separator)) {
				dropBodies(file)
			}
			return file, err
		},
	}, pattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range found {
		if strings.HasSuffix(p.ID, ".test") { // the main package that go test writes
			continue
		}
		faults = append(faults, p.Errors...)
	}
	return faults, len(found)
}

func dropBodies(file *ast.File) {
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			f.Body = nil
		}
	}
}
