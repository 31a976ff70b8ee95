package rules

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/where"
)

const (
	maxText   = 200 // characters of a value that stands in a rule
	maxKeys   = 12  // arguments of a call
	maxValues = 4   // of an argument that is one of few
)

// pathNames are arguments that hold a path, proseNames those that people write.
var (
	pathNames  = []string{"path", "paths", "file", "filename", "filepath", "dir", "directory", "folder", "root", "cwd", "source", "src", "destination", "dest", "dst", "target", "from", "to", "output", "uri"}
	proseNames = []string{"body", "text", "content", "contents", "message", "description", "title", "comment", "summary", "note", "notes", "caption", "markdown"}
)

func isPathName(key string) bool { return slices.Contains(pathNames, lastWord(key)) }

// lastWord is the last word of a name such as filePath or output_dir, in small letters.
func lastWord(key string) string {
	if i := strings.LastIndexAny(key, "_-"); i >= 0 {
		key = key[i+1:]
	}
	for i := len(key) - 1; i > 0; i-- {
		if key[i] >= 'A' && key[i] <= 'Z' && key[i-1] >= 'a' && key[i-1] <= 'z' {
			key = key[i:]
			break
		}
	}
	return strings.ToLower(key)
}

// conditionOf is what all calls of a group have in common. ok is false where an
// argument can be anything, and where nothing is fixed.
func conditionOf(group []*call, workspace string) (text string, ok bool) {
	seen := map[string]bool{}
	for _, c := range group {
		for key := range c.args {
			seen[key] = true
		}
	}
	if len(seen) == 0 {
		return "size(args) == 0", true
	}
	if len(seen) > maxKeys {
		return "", false
	}
	names := slices.Sorted(maps.Keys(seen))
	var parts, known []string
	fixed := false
	for _, key := range names {
		var values []any
		for _, c := range group {
			if v, there := c.args[key]; there {
				values = append(values, v)
			}
		}
		part, fixes, ok := bound(key, values, workspace)
		if !ok {
			return "", false
		}
		always := len(values) == len(group)
		fixed = fixed || fixes && always
		if !always {
			part = fmt.Sprintf("(!has(%s) || %s)", field(key), part)
		}
		parts, known = append(parts, part), append(known, quote(key))
	}
	if !fixed {
		return "", false
	}
	return strings.Join(parts, " && ") + fmt.Sprintf(" && all(keys(args), # in [%s])", strings.Join(known, ", ")), true
}

// bound is the condition that bounds an argument by the values that it had. fixes is
// set where that is more than its size.
func bound(key string, values []any, workspace string) (text string, fixes, ok bool) {
	literals := map[string]bool{}
	for _, v := range values {
		if lit, ok := literal(v); ok {
			literals[lit] = true
		} else {
			literals[""] = true // one that cannot stand in a rule
		}
	}
	if len(literals) == 1 && !literals[""] {
		for lit := range literals {
			return field(key) + " == " + lit, true, true
		}
	}
	texts, areTexts := all[string](values)
	switch {
	case areTexts && isPathName(key):
		dir := commonFolder(texts, workspace)
		return fmt.Sprintf("under(%s, %s)", field(key), quote(dir)), true, dir != ""
	case areTexts && slices.Contains(proseNames, lastWord(key)):
		longest := 0
		for _, s := range texts {
			longest = max(longest, utf8.RuneCountInString(s))
		}
		return fmt.Sprintf("size(%s) <= %d", field(key), roundUp(2*longest)), false, true
	}
	if !literals[""] && len(literals) <= maxValues && 2*len(literals) <= len(values) {
		return fmt.Sprintf("%s in [%s]", field(key), strings.Join(slices.Sorted(maps.Keys(literals)), ", ")), true, true
	}
	if numbers, areNumbers := all[json.Number](values); areNumbers {
		return between(key, numbers)
	}
	return "", false, false
}

// between bounds whole numbers.
func between(key string, numbers []json.Number) (text string, fixes, ok bool) {
	var least, most *big.Int
	for _, n := range numbers {
		i, whole := new(big.Int).SetString(n.String(), 10)
		if !whole || i.BitLen() > 62 {
			return "", false, false
		}
		if least == nil || i.Cmp(least) < 0 {
			least = i
		}
		if most == nil || i.Cmp(most) > 0 {
			most = i
		}
	}
	return fmt.Sprintf("%s >= %s && %s <= %s", field(key), least, field(key), most), false, true
}

func all[T any](values []any) (out []T, ok bool) {
	for _, v := range values {
		t, is := v.(T)
		if !is {
			return nil, false
		}
		out = append(out, t)
	}
	return out, true
}

// literal is a value as it stands in a condition; ok is false for what cannot.
func literal(v any) (text string, ok bool) {
	switch v := v.(type) {
	case bool:
		return strconv.FormatBool(v), true
	case json.Number:
		i, whole := new(big.Int).SetString(v.String(), 10)
		return v.String(), whole && i.BitLen() <= 62
	case string:
		return quote(v), utf8.RuneCountInString(v) <= maxText && !strings.ContainsFunc(v, core.Hidden)
	case []any:
		parts := make([]string, 0, len(v))
		for _, e := range v {
			lit, ok := literal(e)
			if _, nested := e.([]any); !ok || nested || len(v) > maxKeys {
				return "", false
			}
			parts = append(parts, lit)
		}
		return "[" + strings.Join(parts, ", ") + "]", true
	}
	return "", false
}

// quote writes a text so that it needs no escapes within JSON where that can be.
func quote(s string) string {
	if strings.ContainsAny(s, `'\`) || strings.ContainsFunc(s, core.Hidden) {
		return strconv.Quote(s)
	}
	return "'" + s + "'"
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// field is an argument as it is written in a condition.
func field(key string) string {
	if identifier.MatchString(key) {
		return "args." + key
	}
	return "args[" + quote(key) + "]"
}

// folderOf is the folder of a path, from the workspace on with slashes; empty for one
// that is not in the workspace.
func folderOf(p, workspace string) string {
	if !where.Plain(p) {
		return ""
	}
	if !filepath.IsAbs(p) {
		p = filepath.Join(workspace, p)
	}
	rel, err := filepath.Rel(workspace, filepath.Clean(p))
	if err != nil || !filepath.IsLocal(rel) {
		return ""
	}
	return filepath.ToSlash(filepath.Dir(rel))
}

func parent(dir string) string {
	if i := strings.LastIndexByte(dir, '/'); i >= 0 {
		return dir[:i]
	}
	return "."
}

// commonFolder is the folder that paths have in common, below the workspace; empty
// where there is none.
func commonFolder(paths []string, workspace string) string {
	common := ""
	for i, p := range paths {
		dir := folderOf(p, workspace)
		if i == 0 {
			common = dir
		}
		for common != "." && dir != common && !strings.HasPrefix(dir+"/", common+"/") {
			common = parent(common)
		}
		if dir == "" || dir == "." || common == "." {
			return ""
		}
	}
	return common
}

// roundUp makes a bound a number that people remember.
func roundUp(n int) int {
	for _, step := range []int{100, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 1_000_000} {
		if n <= step {
			return step
		}
	}
	return n
}
