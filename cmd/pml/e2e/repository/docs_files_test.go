package repository_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// named finds names of files: of Go and of documents in comments, of all that
// the repository has in documents.
var (
	namedInComments = regexp.MustCompile(`(?:[\w.-]+/)*[\w-]+\.(?:go|md)\b`)
	namedInDocs     = regexp.MustCompile(`(?:[\w.-]+/)*[\w-]+\.(?:go|md|sh|ts|mjs|sql|txtar|yml)\b`)
	links           = regexp.MustCompile(`\w+://\S+`)
)

// foreign are files that texts speak of and that are not in the repository:
// those of workspaces, of other programs, and of examples.
var foreign = map[string]bool{
	"cli/NAME.go": true, "testdata/corpus/NNN_name.ts": true, // to be written by whoever follows CONTRIBUTING.md
	"server.ts": true, "nightly.ts": true, "AGENTS.md": true, "CLAUDE.md": true, // of a workspace
}

// TestDocs_Files: a file that a comment or a document names is there.
func TestDocs_Files(t *testing.T) {
	t.Parallel()
	files, names := repositoryFiles(t)
	eachFile(t, func(file string, _ bool) {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range f.Comments {
			for _, name := range absent(group.Text(), namedInComments, path.Dir(file), files, nil) {
				t.Errorf("%s: a comment names %s, which is not there", file, name)
			}
		}
	})
	for file := range files {
		if path.Ext(file) != ".md" || file == "CHANGELOG.md" || strings.Contains(file, "testdata/") {
			continue
		}
		for _, name := range absent(readText(t, file), namedInDocs, path.Dir(file), files, names) {
			t.Errorf("%s names %s, which is not there", file, name)
		}
	}
}

// TestDocs_FilesAbsent: a name counts from the folder of its text or from the
// root; in a document a bare one may be anywhere.
func TestDocs_FilesAbsent(t *testing.T) {
	t.Parallel()
	files, names := map[string]bool{"a/x.go": true, "b/run.go": true}, map[string]bool{"x.go": true, "run.go": true}
	const text = "x.go, a/x.go, run.go and b/none.go; see https://host/y.go"
	if got := strings.Join(absent(text, namedInComments, "a", files, nil), " "); got != "run.go b/none.go" {
		t.Errorf("in a comment: %q", got)
	}
	if got := strings.Join(absent(text, namedInDocs, "docs", files, names), " "); got != "b/none.go" {
		t.Errorf("in a document: %q", got)
	}
}

// lintPaths finds the files of the linter's exceptions.
var lintPaths = regexp.MustCompile(`(?m)^ +- path: (.+)$`)

// TestDocs_LintPaths: each exception of the linter is for a file that is there.
func TestDocs_LintPaths(t *testing.T) {
	t.Parallel()
	files, _ := repositoryFiles(t)
	paths := lintPaths.FindAllStringSubmatch(readText(t, ".golangci.yml"), -1)
	if len(paths) == 0 {
		t.Error("no exception was found")
	}
	for _, m := range paths {
		at := regexp.MustCompile(m[1])
		if !slices.ContainsFunc(slices.Collect(maps.Keys(files)), at.MatchString) {
			t.Errorf(".golangci.yml has an exception for %s, where no file is", m[1])
		}
	}
}

// absent lists the names in a text that are no files, neither from its folder
// nor from the root, nor, where names is given, as a bare name anywhere.
func absent(text string, named *regexp.Regexp, dir string, files, names map[string]bool) []string {
	var out []string
	for _, name := range named.FindAllString(links.ReplaceAllString(text, ""), -1) {
		if !files[path.Join(dir, name)] && !files[path.Clean(name)] && !names[name] && !foreign[name] {
			out = append(out, name)
		}
	}
	return out
}

// repositoryFiles are all files by their path from the root, and by their name.
func repositoryFiles(t *testing.T) (files, names map[string]bool) {
	t.Helper()
	files, names = map[string]bool{}, map[string]bool{}
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules") {
			if err == nil {
				err = fs.SkipDir
			}
			return err
		}
		if !d.IsDir() {
			files[filepath.ToSlash(file)], names[d.Name()] = true, true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files, names
}

// TestDocs_Tests: the tests and benchmarks that documents name are there.
func TestDocs_Tests(t *testing.T) {
	t.Parallel()
	there := map[string]bool{}
	eachFile(t, func(file string, test bool) {
		if !test {
			return
		}
		for _, d := range parse(t, file).Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				there[f.Name.Name] = true
			}
		}
	})
	docs, err := filepath.Glob("docs/*.md")
	if err != nil || len(docs) == 0 {
		t.Fatal(docs, err)
	}
	for _, file := range append(docs, "CONTRIBUTING.md", "README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range namedTests.FindAllString(string(text), -1) {
			if !there[name] {
				t.Errorf("%s names %s, which is not there", file, name)
			}
		}
	}
}

var namedTests = regexp.MustCompile(`\b(Test|Benchmark)[A-Z]\w*`)
