package workspace

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"github.com/casys-ai/pml/core"
)

const (
	defaultResults = 200
	maxResults     = 2000
	// maxSearched is the largest file that is searched.
	maxSearched = 8 << 20
	maxWalked   = 200_000
	maxLine     = 300
	maxPattern  = 1000
)

type searchArgs struct {
	Query      string `json:"query"`
	Glob       string `json:"glob"`
	Path       string `json:"path"`
	Regexp     bool   `json:"regexp"`
	IgnoreCase bool   `json:"ignore_case"`
	MaxResults int    `json:"max_results"`
}

type match struct {
	Path string `json:"path"`
	Line int    `json:"line"`
	Text string `json:"text"`
}

type searchResult struct {
	Matches   []match `json:"matches"`
	Files     int     `json:"files_searched"`
	Truncated bool    `json:"truncated"`
}

// errEnough ends a walk whose result is full.
var errEnough = errors.New("enough")

func (c *call) search(a searchArgs) (any, error) {
	if a.Query == "" || len(a.Query) > maxPattern {
		return nil, core.Errorf(core.CodeInvalidArguments, "query must have 1 to %d bytes", maxPattern)
	}
	expr := a.Query
	if !a.Regexp {
		expr = regexp.QuoteMeta(expr)
	}
	if a.IgnoreCase {
		expr = "(?i)" + expr
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, core.Errorf(core.CodeInvalidArguments, "query is not a regular expression: %w", err)
	}
	if err := checkGlob(a.Glob); err != nil {
		return nil, err
	}
	limit := bound(a.MaxResults)
	out := searchResult{Matches: []match{}}
	err = c.walk(a.Path, func(p string, d fs.DirEntry) error {
		if !d.Type().IsRegular() || secret(p) || a.Glob != "" && !globMatch(a.Glob, p) {
			return nil
		}
		searched, err := c.searchFile(p, re, limit, &out)
		if searched {
			out.Files++
		}
		return err
	})
	if errors.Is(err, errEnough) {
		out.Truncated, err = true, nil
	}
	return out, err
}

func bound(n int) int {
	if n <= 0 {
		return defaultResults
	}
	return min(n, maxResults)
}

// searchFile adds a file's matches. What cannot be read, is large or is not
// text is left out.
func (c *call) searchFile(p string, re *regexp.Regexp, limit int, out *searchResult) (bool, error) {
	f, info, err := c.open(p, p)
	if err != nil {
		return false, nil //nolint:nilerr // one unreadable file must not end a search
	}
	defer func() { _ = f.Close() }()
	if info.Size() > maxSearched {
		return false, nil
	}
	r := bufio.NewReaderSize(io.LimitReader(f, maxSearched), 64<<10)
	if head, _ := r.Peek(8000); bytes.IndexByte(head, 0) >= 0 {
		return false, nil
	}
	for n := 1; ; n++ {
		line, err := r.ReadBytes('\n')
		line = bytes.TrimRight(line, "\r\n")
		if re.Match(line) {
			if len(out.Matches) == limit {
				return true, errEnough
			}
			out.Matches = append(out.Matches, match{Path: p, Line: n, Text: shorten(line)})
		}
		if err != nil {
			return true, nil //nolint:nilerr // the end of the file, or of what can be read of it
		}
	}
}

func shorten(line []byte) string {
	text := strings.ToValidUTF8(string(line[:min(len(line), maxLine)]), "\uFFFD")
	if len(line) > maxLine {
		text += "…"
	}
	return text
}

type findArgs struct {
	Pattern    string `json:"pattern"`
	Path       string `json:"path"`
	MaxResults int    `json:"max_results"`
}

type findResult struct {
	Paths     []string `json:"paths"`
	Truncated bool     `json:"truncated"`
}

func (c *call) find(a findArgs) (any, error) {
	if a.Pattern == "" {
		return nil, core.Errorf(core.CodeInvalidArguments, "pattern must not be empty")
	}
	if err := checkGlob(a.Pattern); err != nil {
		return nil, err
	}
	limit := bound(a.MaxResults)
	out := findResult{Paths: []string{}}
	err := c.walk(a.Path, func(p string, d fs.DirEntry) error {
		if d.IsDir() || !globMatch(a.Pattern, p) {
			return nil
		}
		if len(out.Paths) == limit {
			return errEnough
		}
		out.Paths = append(out.Paths, p)
		return nil
	})
	if errors.Is(err, errEnough) {
		out.Truncated, err = true, nil
	}
	return out, err
}

// walk visits what is under a folder in lexical order, without .git and
// node_modules and without following links.
func (c *call) walk(start string, visit func(p string, d fs.DirEntry) error) error {
	real, err := c.toRead(orDot(start))
	if err != nil {
		return err
	}
	if _, err := c.root.Stat(real); err != nil {
		return failed("search", start, err)
	}
	return c.walkFrom(real, visit)
}

// walkAll is walk for the whole workspace.
func (c *call) walkAll(visit func(p string, d fs.DirEntry) error) error {
	return c.walkFrom(".", visit)
}

func (c *call) walkFrom(real string, visit func(p string, d fs.DirEntry) error) error {
	seen := 0
	return fs.WalkDir(c.root.FS(), real, func(p string, d fs.DirEntry, err error) error {
		if ctxErr := c.ctx.Err(); ctxErr != nil {
			return ctxErr
		}
		if err != nil {
			return nil //nolint:nilerr // a folder that cannot be read is left out
		}
		if seen++; seen > maxWalked {
			return errEnough
		}
		if d.IsDir() {
			name := fold(d.Name())
			if p != real && (name == ".git" || name == "node_modules") {
				return fs.SkipDir
			}
		}
		return visit(p, d)
	})
}

func checkGlob(pattern string) error {
	if len(pattern) > maxPattern || strings.Count(pattern, "/") > 64 {
		return core.Errorf(core.CodeInvalidArguments, "the pattern is too long")
	}
	for part := range strings.SplitSeq(pattern, "/") {
		if _, err := path.Match(part, ""); err != nil {
			return core.Errorf(core.CodeInvalidArguments, "%q is not a pattern: %w", pattern, err)
		}
	}
	return nil
}

// globMatch matches a path: * and ? and [a-z] inside a name, ** for any number
// of folders. A pattern without a slash is about the name alone.
func globMatch(pattern, p string) bool {
	if !strings.Contains(pattern, "/") && pattern != "**" {
		ok, _ := path.Match(pattern, path.Base(p))
		return ok
	}
	parts := strings.Split(p, "/")
	// ok[i]: the pattern so far matches the first i parts.
	ok := make([]bool, len(parts)+1)
	ok[0] = true
	for want := range strings.SplitSeq(strings.TrimPrefix(pattern, "./"), "/") {
		next := make([]bool, len(parts)+1)
		for i := range next {
			if want == "**" {
				next[i] = ok[i] || i > 0 && next[i-1]
				continue
			}
			if i > 0 && ok[i-1] {
				next[i], _ = path.Match(want, parts[i-1])
			}
		}
		ok = next
	}
	return ok[len(parts)]
}
