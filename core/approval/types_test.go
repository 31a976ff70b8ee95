package approval_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
)

// TestTypes: each type that core declares is described, once and in full.
func TestTypes(t *testing.T) {
	t.Parallel()
	f, err := parser.ParseFile(token.NewFileSet(), "../approval.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := map[core.ApprovalType]int{}
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := v.Type.(*ast.Ident); ok && kind.Name == "ApprovalType" {
			name, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			declared[core.ApprovalType(name)] = 0
		}
		return true
	})
	for _, d := range approval.Types {
		declared[d.Type]++
		if d.Label == "" || d.Words == "" || d.Question == "" || approval.TypeOf(d.Type) != d {
			t.Errorf("%+v", d)
		}
	}
	for name, n := range declared {
		if n != 1 {
			t.Errorf("%s is described %d times", name, n)
		}
	}
	if d := approval.TypeOf("new\x1b"); d.Label == "" || d.Label == "new\x1b" || !d.Single || !d.Machine || d.PerCall {
		t.Errorf("%+v", d)
	}
}

// TestQuestionOf: where nothing has changed no card says that something has.
func TestQuestionOf(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{"readonly": "Do its tools only read?", "tool": "Approve integrity change?"} {
		got := approval.QuestionOf(core.Approval{Type: core.ApproveIntegrity, Context: []byte(`{"kind":"` + kind + `"}`)})
		if got != want {
			t.Errorf("%s asks %q", kind, got)
		}
	}
}
