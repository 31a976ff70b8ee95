package suggest

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// filler gives the properties of one tool the values of one step. A value is used
// once, and only where what it is for is plain.
type filler struct {
	schema schema
	values []value
	used   []bool
	args   map[string]json.RawMessage
}

// The words of names of properties, by what they hold.
var (
	urlNames     = stems("url uri link href endpoint address website")
	emailNames   = stems("email mail recipient")
	pathNames    = stems("path file filename filepath directory dir folder source destination src dst from to target output input")
	sourceNames  = stems("source src from old origin input")
	destNames    = stems("destination dst dest to new target output")
	channelNames = stems("channel")
	textNames    = stems("content text body message data value input markdown html comment note description")
	mainNames    = stems("query q search pattern text message content body title name sql statement command prompt question term keyword")
	toward       = set("to into as onto in under vers sous")
)

// nounsFor are other words for what properties of a name hold.
var nounsFor = map[string]map[string]bool{
	stem("directory"): stems("path directory dir folder"), stem("folder"): stems("path directory dir folder"),
	stem("dossier"): stems("path directory dir folder"), stem("file"): stems("path file filename"),
	stem("fichier"): stems("path file filename"), stem("repository"): stems("repo repository"),
	stem("depot"): stems("repo repository"), stem("branche"): stems("branch"),
	stem("pr"): stems("pull"), stem("results"): stems("limit"), stem("title"): stems("title"),
	stem("titled"): stems("title"), stem("named"): stems("name"), stem("called"): stems("name"),
	stem("labeled"): stems("label"), stem("labelled"): stems("label"), stem("saying"): stems("text message body"),
	stem("email"): stems("email to recipient"),
}

func newFiller(s schema, values []value) *filler {
	return &filler{schema: s, values: values, used: make([]bool, len(values)), args: map[string]json.RawMessage{}}
}

// fill does all that a step's values say for certain, the plainest first.
func (f *filler) fill(text string) {
	f.byKey()
	f.byWordBefore()
	f.paths()
	f.byKind()
	f.slugs()
	f.lastOne()
	f.enums(text)
}

// take gives a property a value, if it can hold it and has none.
func (f *filler) take(name string, i int) bool {
	p, known := f.schema.props[name]
	if _, has := f.args[name]; has || !known || f.used[i] {
		return false
	}
	raw, ok := p.hold(f.values[i])
	if ok {
		f.args[name], f.used[i] = raw, true
	}
	return ok
}

// hold writes a value as the property's type, if it can be one.
func (p property) hold(v value) (json.RawMessage, bool) {
	switch {
	case len(p.enum) > 0:
		if i := slices.IndexFunc(p.enum, func(e string) bool { return strings.EqualFold(e, v.text) }); i >= 0 {
			return quote(p.enum[i]), true
		}
		return nil, false
	case v.kind == kindNumber && (p.is("integer") || p.is("number")):
		if _, err := strconv.ParseInt(v.text, 10, 64); err == nil {
			return json.RawMessage(strconv.AppendInt(nil, mustInt(v.text), 10)), true
		}
		n, err := strconv.ParseFloat(v.text, 64)
		if err != nil || !p.is("number") {
			return nil, false
		}
		return json.RawMessage(strconv.AppendFloat(nil, n, 'g', -1, 64)), true
	case p.is("string"):
		return quote(v.text), true
	case p.is("boolean") && v.key != "" && (v.text == "true" || v.text == "false"):
		return json.RawMessage(v.text), true
	case p.is("array") && (p.items == "" || p.items == "string") && v.kind != kindNumber:
		return json.RawMessage("[" + string(quote(v.text)) + "]"), true
	}
	return nil, false
}

func mustInt(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func quote(s string) json.RawMessage {
	raw, err := json.Marshal(s)
	if err != nil {
		return json.RawMessage(`""`)
	}
	return raw
}

// byKey uses key=value and key: value.
func (f *filler) byKey() {
	for i, v := range f.values {
		if v.key == "" {
			continue
		}
		key := strings.Join(nameWords(v.key), " ")
		for _, name := range f.schema.names {
			if strings.Join(f.schema.props[name].words, " ") == key && f.take(name, i) {
				break
			}
		}
	}
}

// byWordBefore uses values that stand behind the name of a property: title "x",
// issue 12, branch named y.
func (f *filler) byWordBefore() {
	for i, v := range f.values {
		for _, word := range v.before {
			low := fold(word)
			if stopWords[low] && !naming[low] {
				if low == "of" || low == "from" || low == "to" || low == "in" || low == "into" || low == "on" {
					break
				}
				continue
			}
			if f.takeNamed(stem(low), i) || !naming[low] {
				break
			}
		}
	}
}

// takeNamed gives a value to the one property whose name has a word. Required
// ones go first.
func (f *filler) takeNamed(word string, i int) bool {
	want := nounsFor[word]
	for _, required := range []bool{true, false} {
		var found []string
		for _, name := range f.schema.names {
			p := f.schema.props[name]
			if _, has := f.args[name]; !has && p.required == required && (slices.Contains(p.words, word) || p.called(want)) {
				found = append(found, name)
			}
		}
		if len(found) == 1 && f.take(found[0], i) {
			return true
		}
	}
	return false
}

// paths gives the paths of a step to the properties for paths: by "from" and "to"
// where there are two, all to a list, one to one.
func (f *filler) paths() {
	var have []int
	for i, v := range f.values {
		if !f.used[i] && v.key == "" && (v.kind == kindPath || v.kind == kindSlug || v.held()) {
			have = append(have, i)
		}
	}
	var want []string
	for _, name := range f.schema.names {
		p := f.schema.props[name]
		if _, has := f.args[name]; !has && p.called(pathNames) && (p.is("string") || p.is("array")) && len(p.enum) == 0 &&
			(p.required || strings.Contains(strings.Join(p.words, " "), "path")) {
			want = append(want, name)
		}
	}
	required := slices.DeleteFunc(slices.Clone(want), func(n string) bool { return !f.schema.props[n].required })
	if len(required) > 0 {
		want = required
	}
	switch {
	case len(have) == 0 || len(want) == 0:
	case len(want) == 1 && f.isList(want[0]):
		f.takeAll(want[0], have)
	case len(want) == 2 && len(have) == 2:
		f.takePair(want, have)
	case len(have) == 1 && len(want) == 1:
		f.take(want[0], have[0])
	case len(have) == 1:
		f.takeSide(want, have[0])
	}
}

func (f *filler) isList(name string) bool { return !f.schema.props[name].is("string") }

func (f *filler) takeAll(name string, have []int) {
	list := make([]string, len(have))
	for n, i := range have {
		list[n], f.used[i] = f.values[i].text, true
	}
	if raw, err := json.Marshal(list); err == nil {
		f.args[name] = raw
	}
}

// takePair fills two properties, from the one and to the other.
func (f *filler) takePair(want []string, have []int) {
	from, to := want[0], want[1]
	if f.schema.props[from].called(destNames) || f.schema.props[to].called(sourceNames) {
		from, to = to, from
	}
	if !f.schema.props[from].called(sourceNames) && !f.schema.props[to].called(destNames) {
		return
	}
	if f.toward(have[0]) && !f.toward(have[1]) {
		have = []int{have[1], have[0]}
	}
	f.take(from, have[0])
	f.take(to, have[1])
}

// takeSide gives one path to the side that the word before it names.
func (f *filler) takeSide(want []string, i int) {
	side := sourceNames
	if f.toward(i) {
		side = destNames
	}
	for _, name := range want {
		if f.schema.props[name].called(side) {
			f.take(name, i)
			return
		}
	}
}

func (f *filler) toward(i int) bool {
	before := f.values[i].before
	return len(before) > 0 && toward[fold(before[0])]
}

// byKind uses what looks like what a property holds.
func (f *filler) byKind() {
	for i, v := range f.values {
		var want func(property) bool
		switch v.kind {
		case kindURL:
			want = func(p property) bool { return p.format == "uri" || p.format == "url" || p.called(urlNames) }
		case kindEmail:
			want = func(p property) bool { return p.format == "email" || p.called(emailNames) }
		case kindChannel:
			want = func(p property) bool { return p.called(channelNames) }
		case kindNumber:
			want = func(p property) bool { return p.required && !p.is("string") && (p.is("integer") || p.is("number")) }
		case kindWord, kindQuoted, kindPath, kindSlug:
			continue
		}
		f.takeOnly(want, i)
	}
}

// takeOnly gives a value to the one property that wants it, a required one first.
func (f *filler) takeOnly(want func(property) bool, i int) {
	var must, may []string
	for _, name := range f.schema.names {
		p := f.schema.props[name]
		if _, has := f.args[name]; has || !want(p) {
			continue
		}
		if p.required {
			must = append(must, name)
		} else {
			may = append(may, name)
		}
	}
	switch {
	case len(must) == 1:
		f.take(must[0], i)
	case len(must) == 0 && len(may) == 1:
		f.take(may[0], i)
	}
}

// slugs gives owner/name to two properties of these names.
func (f *filler) slugs() {
	owner, has := f.schema.props["owner"]
	if !has || !owner.is("string") {
		return
	}
	for _, name := range []string{"repo", "repository"} {
		p, ok := f.schema.props[name]
		if !ok || !p.is("string") {
			continue
		}
		for i, v := range f.values {
			_, owned := f.args["owner"]
			_, named := f.args[name]
			if f.used[i] || v.kind != kindSlug || owned || named {
				continue
			}
			a, b, _ := strings.Cut(v.text, "/")
			f.args["owner"], f.args[name], f.used[i] = quote(a), quote(b), true
		}
	}
}

// lastOne gives the one quoted text that is left to the one property of text that
// is required and left.
func (f *filler) lastOne() {
	var have []int
	for i, v := range f.values {
		if !f.used[i] && v.key == "" && v.kind == kindQuoted {
			have = append(have, i)
		}
	}
	var want, likely []string
	for _, name := range f.schema.required {
		p := f.schema.props[name]
		if _, has := f.args[name]; !has && p.text() {
			want = append(want, name)
			if p.called(mainNames) {
				likely = append(likely, name)
			}
		}
	}
	switch {
	case len(have) != 1:
	case len(want) == 1:
		f.take(want[0], have[0])
	case len(likely) == 1:
		f.take(likely[0], have[0])
	}
}

// enums gives required properties with fixed values the one that the text names.
func (f *filler) enums(text string) {
	said := nameWords(text)
	for _, name := range f.schema.required {
		p := f.schema.props[name]
		if _, has := f.args[name]; has || len(p.enum) == 0 {
			continue
		}
		var found []string
		for _, e := range p.enum {
			if w := nameWords(e); len(w) == 1 && slices.Contains(said, w[0]) {
				found = append(found, e)
			}
		}
		if len(found) == 1 {
			f.args[name] = quote(found[0])
		}
	}
}

// given uses the values that a caller has at hand, by the name of the property,
// and then what the schema says a required one is if nobody says otherwise.
func (f *filler) given(context map[string]json.RawMessage) {
	for _, name := range f.schema.names {
		if _, has := f.args[name]; has {
			continue
		}
		p := f.schema.props[name]
		if raw, ok := context[strings.Join(p.words, " ")]; ok && p.is(typeOf(raw)) {
			f.args[name] = raw
		}
	}
	for _, name := range f.schema.required {
		if _, has := f.args[name]; !has && len(f.schema.props[name].fallback) > 0 {
			f.args[name] = f.schema.props[name].fallback
		}
	}
}

// typeOf is the type of a JSON value, as schemas name it.
func typeOf(raw json.RawMessage) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return ""
	}
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case float64:
		if v == float64(int64(v)) {
			return "integer"
		}
		return "number"
	}
	return "object"
}

// missing are the required properties without a value.
func (f *filler) missing() []string {
	return slices.DeleteFunc(slices.Clone(f.schema.required), func(name string) bool {
		_, has := f.args[name]
		return has
	})
}

// share is how much of what was said the arguments take up. A list of one thing
// counts half: a tool for one is meant.
func (f *filler) share() float64 {
	var n float64
	for _, used := range f.used {
		if used {
			n++
		}
	}
	for name := range f.args {
		if f.isList(name) && bytes.IndexByte(f.args[name], ',') < 0 && f.args[name][0] == '[' {
			n -= 0.5
		}
	}
	return n / float64(len(f.used))
}
