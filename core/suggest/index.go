package suggest

import (
	"cmp"
	"math"
	"slices"

	"github.com/casys-ai/pml/core"
)

// The fields of a tool, with how much a word in each counts and how much a long
// field is held against it.
const (
	fieldName = iota
	fieldTitle
	fieldServer
	fieldDescription
	fieldProperties
	fields
)

var (
	fieldWeight = [fields]float64{fieldName: 4, fieldTitle: 1.5, fieldServer: 1.5, fieldDescription: 1.2, fieldProperties: 0.5}
	fieldLength = [fields]float64{fieldName: 0.6, fieldTitle: 0.3, fieldServer: 0, fieldDescription: 0.6, fieldProperties: 0.7}
)

const (
	saturation = 1.6 // k1 of BM25: how soon more of a word stops to count
	halfway    = 5.0 // the sum at which a score is one half
	synonym    = 0.55
	weighed    = 16   // tools whose arguments are looked at
	unfitting  = 0.15 // what a tool loses that takes none of the values
	hinted     = 0.35
	// gentle is what is left of the score of a tool that destroys when the intent
	// does not say that something is to be destroyed.
	gentle = 0.6
)

// Index is a list of tools made ready for ranking. It is made once for a list and
// safe for concurrent use.
type Index struct {
	docs     []doc
	byID     map[string]int
	postings map[string][]posting
	actions  map[string]bool // first words of names: verbs, mostly
}

type doc struct {
	tool     core.Tool
	id       string
	schema   schema
	destroys bool
}

// posting is a word's weight in one tool, all fields together.
type posting struct {
	doc    int
	weight float64
}

// hit is a tool that fits.
type hit struct {
	doc   int
	score float64 // 0 to 1
}

// New makes an index of tools.
func New(tools []core.Tool) *Index {
	x := &Index{docs: make([]doc, len(tools)), byID: map[string]int{}, postings: map[string][]posting{}, actions: stems(verbs)}
	all := make([][fields][]string, len(tools))
	var total [fields]float64
	for i, t := range tools {
		s := parseSchema(t.InputSchema)
		x.docs[i] = doc{tool: t, id: t.ID(), schema: s, destroys: Destroys(t)}
		x.byID[x.docs[i].id] = i
		all[i] = [fields][]string{
			fieldName: words(t.Name), fieldTitle: words(t.Title), fieldServer: words(t.Server),
			fieldDescription: words(clip(t.Description)), fieldProperties: s.words(),
		}
		for f, list := range all[i] {
			total[f] += float64(len(list))
		}
		if name := all[i][fieldName]; len(name) > 1 {
			x.actions[name[0]] = true
		}
	}
	for i := range all {
		x.add(i, all[i], total)
	}
	return x
}

// Len is how many tools there are.
func (x *Index) Len() int { return len(x.docs) }

func (x *Index) add(n int, doc [fields][]string, total [fields]float64) {
	weight := map[string]float64{}
	for f, list := range doc {
		if len(list) == 0 {
			continue
		}
		mean := total[f] / float64(len(x.docs))
		one := fieldWeight[f] / (1 - fieldLength[f] + fieldLength[f]*float64(len(list))/mean)
		for _, w := range list {
			weight[w] += one
		}
	}
	for w, v := range weight {
		x.postings[w] = append(x.postings[w], posting{n, v})
	}
}

// rarest is the rarity of a word that no tool has.
const rarest = 5

// rarity is the weight of a word by how few tools have it: the IDF of BM25, on a
// scale that is the same for few tools and for many.
func (x *Index) rarity(w string) float64 {
	n, df := float64(len(x.docs)), float64(len(x.postings[w]))
	return rarest * math.Log(1+(n-df+0.5)/(df+0.5)) / math.Log(1+(n+0.5)/0.5)
}

// rank orders the tools that fit a text, best first; tools that fit the same are
// in the order of their names.
func (x *Index) rank(text string, past echoes) []hit {
	plain, hints := hollow(text)
	query := unique(words(plain))
	sums, explained, total := x.sums(query)
	x.hint(sums, hints)
	for n, boost := range past {
		sums[n] += boost
	}
	destroying := slices.ContainsFunc(query, destructive)
	var out []hit
	for n, sum := range sums {
		if sum <= 0 {
			continue
		}
		if total > 0 {
			sum *= 0.4 + 0.6*explained[n]/total
		}
		if x.docs[n].destroys && !destroying {
			sum *= gentle
		}
		out = append(out, hit{n, sum / (sum + halfway)})
	}
	x.order(out)
	x.order(x.fitting(out[:min(len(out), weighed)], text))
	return out
}

// destructive reports whether a word means that something is to be destroyed.
func destructive(w string) bool {
	return destruction[w] || slices.ContainsFunc(synonyms()[w], func(s string) bool { return destruction[s] })
}

func (x *Index) order(list []hit) {
	slices.SortFunc(list, func(a, b hit) int {
		if n := cmp.Compare(b.score, a.score); n != 0 {
			return n
		}
		return cmp.Or(cmp.Compare(x.docs[a.doc].id, x.docs[b.doc].id), cmp.Compare(a.doc, b.doc))
	})
}

// fitting lowers the scores of the first tools by what they leave of the values of
// a text: one that takes a path, a URL or a number that was said is meant rather
// than one that does not.
func (x *Index) fitting(list []hit, text string) []hit {
	values := scan(text)
	if len(values) == 0 {
		return list
	}
	for i := range list {
		f := newFiller(x.docs[list[i].doc].schema, values)
		f.fill(text)
		list[i].score *= 1 - unfitting*(1-f.share())
	}
	return list
}

// sums adds up what each word of a query gives each tool, and how much of the
// query each explains.
func (x *Index) sums(query []string) (sums, explained []float64, total float64) {
	sums, explained = make([]float64, len(x.docs)), make([]float64, len(x.docs))
	best := map[int]float64{}
	for i, w := range query {
		clear(best)
		x.gather(best, w, 1)
		for _, s := range synonyms()[w] {
			x.gather(best, s, synonym)
		}
		rare := x.rarity(w)
		if len(best) == 0 {
			rare /= 2 // it may be a value: a name, a number
		}
		if i == 0 && x.actions[w] {
			rare *= 1.2
		}
		total += rare
		for n, v := range best {
			sums[n] += v
			explained[n] += rare * min(1, v/max(rare, 1e-9))
		}
	}
	return sums, explained, total
}

// gather keeps the best of what a word or its synonyms give each tool: they say
// the same thing, so it counts once.
func (x *Index) gather(best map[int]float64, w string, share float64) {
	rare := x.rarity(w)
	for _, p := range x.postings[w] {
		v := share * rare * p.weight * (saturation + 1) / (p.weight + saturation) / 2
		if v > best[p.doc] {
			best[p.doc] = v
		}
	}
}

// hint adds what the kinds of the values in a text speak for (a URL for tools with
// "url"): less than a word, and nothing is held against tools without it.
func (x *Index) hint(sums []float64, hints []string) {
	best := map[int]float64{}
	for _, w := range unique(hints) {
		clear(best)
		x.gather(best, stem(w), hinted)
		for n, v := range best {
			sums[n] += v
		}
	}
}

func unique(list []string) []string {
	seen := map[string]bool{}
	var out []string
	for _, w := range list {
		if !seen[w] {
			seen[w] = true
			out = append(out, w)
		}
	}
	return out
}

// echoes are what past runs with a similar intent add to their tools.
type echoes map[int]float64

const (
	alike   = 0.34 // the least similarity that counts
	loudest = 6.0  // the sum that an equal intent of many runs adds
)

// memory is a past run, made ready for comparison.
type memory struct {
	words []string
	docs  []int
	count float64
}

// remember makes past runs ready, those whose tools are known.
func (x *Index) remember(past []Run) []memory {
	var out []memory
	for _, r := range past {
		m := memory{count: float64(max(1, r.Count))}
		for _, id := range r.Tools {
			if n, ok := x.byID[id]; ok {
				m.docs = append(m.docs, n)
			}
		}
		if len(m.docs) == 0 {
			continue
		}
		plain, _ := hollow(clip(r.Intent))
		m.words = unique(words(plain))
		out = append(out, m)
	}
	return out
}

// similar finds past runs with an intent like this one. Similarity is the share of
// rare words that both have (weighted Jaccard).
func (x *Index) similar(intent string, past []memory) echoes {
	if len(past) == 0 {
		return nil
	}
	plain, _ := hollow(intent)
	query, out := unique(words(plain)), echoes{}
	for _, m := range past {
		sim := x.likeness(query, m.words)
		if sim < alike {
			continue
		}
		boost := loudest * sim * sim * m.count / (m.count + 1)
		for _, n := range m.docs {
			out[n] = max(out[n], boost)
		}
	}
	return out
}

// halved is for a step of an intent: what speaks for the whole speaks less for it.
func (e echoes) halved(step echoes) echoes {
	if len(e) == 0 {
		return step
	}
	out := echoes{}
	for n, boost := range e {
		out[n] = boost / 2
	}
	for n, boost := range step {
		out[n] = max(out[n], boost)
	}
	return out
}

func (x *Index) likeness(a, b []string) float64 {
	var both, all float64
	for _, w := range a {
		v := x.rarity(w)
		all += v
		if slices.Contains(b, w) {
			both += v
		}
	}
	for _, w := range b {
		if !slices.Contains(a, w) {
			all += x.rarity(w)
		}
	}
	if all == 0 {
		return 0
	}
	return both / all
}
