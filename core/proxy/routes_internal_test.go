package proxy

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// asExpression is what a template stands for, in other words.
func asExpression(text string) *regexp.Regexp {
	parts := partsOf(text)
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile(`(?s)\A` + strings.Join(parts, `.*`) + `\z`)
}

func TestTemplate_Matches(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		template, uri string
		want          bool
	}{
		{"a://t/{id}", "a://t/7", true},
		{"a://t/{id}", "a://t/", true},
		{"a://t/{id}", "a://u/7", false},
		{"a://t/{id}/x", "a://t/7/x", true},
		{"a://t/{id}/x", "a://t/x", false},
		{"a://{x}/b/{y}/c", "a://1/b/b/c", true},
		{"a://{x}/b/{y}/c", "a://1/c", false},
		{"ab{x}ba", "aba", false},
		{"{x}", "", true},
		{"{a}{b}", "anything\nat all", true},
		{"plain", "plain", true},
		{"plain", "plainer", false},
		{"{}}{", "x}{", true},
		{"}{x}", "}{x}", true},
	} {
		if got := (template{parts: partsOf(tt.template)}).matches(tt.uri); got != tt.want || got != asExpression(tt.template).MatchString(tt.uri) {
			t.Errorf("%q, %q: %v", tt.template, tt.uri, got)
		}
	}
}

func FuzzTemplate(f *testing.F) {
	f.Add("a{b}c{d}e{f}", "abcabce")
	f.Add("{}ab{}ba{}", "aba")
	f.Fuzz(func(t *testing.T, text, uri string) {
		if !utf8.ValidString(text) || !utf8.ValidString(uri) {
			return // texts of JSON are
		}
		if got := (template{parts: partsOf(text)}).matches(uri); got != asExpression(text).MatchString(uri) {
			t.Errorf("%q, %q: %v", text, uri, got)
		}
	})
}

func listOf(member, format string, from, n int) []json.RawMessage {
	items := make([]json.RawMessage, n)
	for i := range items {
		items[i] = json.RawMessage(fmt.Sprintf(`{"%s":"`+format+`"}`, member, from+i))
	}
	return items
}

// One server has a share of its own, whatever the others list; what it lists now
// counts more than what it has listed before.
func TestRoutes_Bounded(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ field, member, format string }{
		{"resources", "uri", "x://%d" + strings.Repeat("x", 100_000)},
		{"prompts", "name", "%d" + strings.Repeat("x", 100_000)},
		{"resourceTemplates", "uriTemplate", "x://%d/{x}"},
	} {
		r := newRoutes()
		const n = maxRoutes / (100_020 + routeBytes)
		items := n
		if tt.field == "resourceTemplates" {
			items = 2 * maxTemplates
		}
		for round := range 2 {
			all := r.learn(tt.field, "a", listOf(tt.member, tt.format, round*items, items))
			if all != (tt.field != "resourceTemplates") { // of which there are fewer
				t.Errorf("%s, %d: %v", tt.field, round, all)
			}
			known := r.known(tt.field)
			if tt.field != "resourceTemplates" && len(known) > n || tt.field == "resourceTemplates" && (len(known) != maxTemplates || len(r.templates) != maxTemplates) {
				t.Fatalf("%s: %d, %d", tt.field, len(known), len(r.templates))
			}
			if newest := fmt.Sprintf(tt.format, round*items); known[newest] != "a" {
				t.Errorf("%s: what it lists now is not known", tt.field)
			}
		}
		if !r.learn(tt.field, "b", listOf(tt.member, "b"+tt.format, 0, 10)) || r.known(tt.field)[fmt.Sprintf("b"+tt.format, 9)] != "b" {
			t.Errorf("%s: another server has no room", tt.field)
		}
	}
}

// Names that are nobody's do not stay for ever.
func TestRoutes_Nobodys(t *testing.T) {
	t.Parallel()
	r := newRoutes()
	const n = maxRoutes / (100_020 + routeBytes)
	for round := range 2 {
		items := listOf("name", "%d"+strings.Repeat("x", 100_000), round*n, n)
		r.learn("prompts", "a", items)
		for _, item := range items {
			r.nobodys(keyOf("prompts", item))
		}
		if len(r.prompts) > n+1 {
			t.Fatalf("%d are kept", len(r.prompts))
		}
	}
}

// A template is compared as text once, however many there are: with a
// comparison of each with each this would take minutes.
func TestRoutes_ManyTemplates(t *testing.T) {
	t.Parallel()
	r := newRoutes()
	for range 5 {
		r.learn("resourceTemplates", "a", listOf("uriTemplate", "x://%d/{x}", 0, maxTemplates))
	}
	if len(r.templates) != maxTemplates || r.ofResource("x://1999/{x}") != "a" || r.ofResource("x://1999/7") != "a" {
		t.Errorf("%d", len(r.templates))
	}
}
