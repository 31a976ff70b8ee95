package repository_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

var svgText = regexp.MustCompile(`<text[^>]*>([^<]*)</text>`)

// TestPictures: texts in the pictures of terminals have no plain spaces. Browsers take
// those at the ends of a text away and stretch what is left over its length.
func TestPictures(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("docs/*.svg")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v %v", files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range svgText.FindAllStringSubmatch(string(data), -1) {
			for _, r := range text[1] {
				if r == ' ' {
					t.Fatalf("%s: %q has plain spaces; make it anew with testdata/picture", file, text[1])
				}
			}
		}
	}
}
