package diff_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core/diff"
)

func TestLines(t *testing.T) {
	t.Parallel()
	before := "a\nb\nc\nd\ne\nf\ng\nh\ni\n"
	for _, c := range []struct{ after, want string }{
		{before, ""},
		{strings.Replace(before, "e\n", "E\n", 1), "@@ line 2 @@\n b\n c\n d\n-e\n+E\n f\n g\n h\n"},
		{"x\n" + before, "@@ line 1 @@\n+x\n a\n b\n c\n"},
		{"", "@@ line 1 @@\n-a\n-b\n-c\n-d\n-e\n-f\n-g\n-h\n-i\n"},
		{strings.TrimSuffix(before, "h\ni\n"), "@@ line 5 @@\n e\n f\n g\n-h\n-i\n"},
	} {
		if d := cmp.Diff(c.want, diff.Lines(before, c.after)); d != "" {
			t.Error(d)
		}
	}
}

// What is large is shown as replaced, not compared for minutes.
func TestCompare_Large(t *testing.T) {
	t.Parallel()
	old, now := strings.Split(strings.Repeat("a ", 5000), " "), strings.Split(strings.Repeat("b ", 5000)+"z", " ")
	parts := diff.Compare(old, now)
	if len(parts) != len(old)+len(now) || parts[0].Sign != '-' || parts[len(parts)-1].Sign != '+' {
		t.Errorf("%d parts", len(parts))
	}
}

// Old and new can be read back from a comparison.
func FuzzCompare(f *testing.F) {
	f.Add("a b c", "a c d")
	f.Add("", "x")
	f.Fuzz(func(t *testing.T, a, b string) {
		old, now := strings.Split(a, " "), strings.Split(b, " ")
		var gone, come []string
		for _, p := range diff.Compare(old, now) {
			if p.Sign != '+' {
				gone = append(gone, p.Text)
			}
			if p.Sign != '-' {
				come = append(come, p.Text)
			}
		}
		if d := cmp.Diff(old, gone) + cmp.Diff(now, come); d != "" {
			t.Error(d)
		}
	})
}
