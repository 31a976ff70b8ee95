package model

import (
	_ "embed" // the table of prices
	"encoding/json"
	"math"
	"regexp"
	"sync"
)

// Price is what a million tokens cost, in dollars. What is nil is not known.
type Price struct {
	Input      *float64 `json:"input,omitempty"`
	Output     *float64 `json:"output,omitempty"`
	CacheRead  *float64 `json:"cache_read,omitempty"`
	CacheWrite *float64 `json:"cache_write,omitempty"`
	// UpTo is the longest prompt in tokens for which the prices hold; 0: any.
	UpTo int64 `json:"up_to,omitempty"`
}

//go:embed prices.json
var priceFile []byte

// priceTable is prices.json.
type priceTable struct {
	AsOf   string                        `json:"as_of"`
	Models map[Protocol]map[string]Price `json:"models"`
}

var prices = sync.OnceValue(func() priceTable {
	var t priceTable
	_ = json.Unmarshal(priceFile, &t) // a test reads it
	return t
})

// PricesAsOf is the day on which the prices of the table were looked up.
func PricesAsOf() string { return prices().AsOf }

// snapshot is how ids of dated versions of a model end.
var snapshot = regexp.MustCompile(`-(\d{8}|\d{4}-\d{2}-\d{2}|latest)$`)

// Prices are those of the configuration, else those of the table, which knows models
// at the provider whose protocol they speak only: others have prices of their own.
func (m Model) Prices() (Price, bool) {
	if m.Price != nil {
		return *m.Price, true
	}
	if !m.own() {
		return Price{}, false
	}
	table := prices().Models[m.Protocol]
	if p, ok := table[m.ID]; ok {
		return p, true
	}
	p, ok := table[snapshot.ReplaceAllString(m.ID, "")]
	return p, ok
}

// Cost is what a call has cost in dollars. known is false where a price that it takes
// is not known: then nothing is said about the cost.
func (m Model) Cost(u *Usage) (usd float64, known bool) {
	p, ok := m.Prices()
	if !ok || u == nil || p.UpTo > 0 && u.Prompt() > p.UpTo {
		return 0, false
	}
	for _, part := range []struct {
		tokens int64
		price  *float64
	}{{u.Input, p.Input}, {u.Output, p.Output}, {u.CacheRead, p.CacheRead}, {u.CacheWrite, p.CacheWrite}} {
		if part.tokens == 0 {
			continue
		}
		if part.price == nil {
			return 0, false
		}
		usd += float64(part.tokens) * *part.price / 1e6
	}
	return usd, true
}

// Worst is the most that a request may use, by its length: all of the prompt new, or
// written to the cache where that costs more, and an answer as long as it may be.
func (m Model) Worst(r Request) Usage {
	u := Usage{Output: int64(r.MaxTokens)}
	if r.MaxTokens <= 0 {
		u.Output = int64(m.MaxTokens)
	}
	tokens := Estimate(r)
	if p, ok := m.Prices(); ok && p.CacheWrite != nil && p.Input != nil && *p.CacheWrite > *p.Input {
		u.CacheWrite = tokens
	} else {
		u.Input = tokens
	}
	return u
}

// Estimate is about how many tokens a request has. It counts bytes, so that text in
// any language is rather over- than underestimated: three make a token, where English has
// about four.
func Estimate(r Request) int64 {
	bytes := len(r.System)
	for _, m := range r.Messages {
		bytes += len(m.Answer) + len(m.Text) + perMessage
		for _, result := range m.Results {
			bytes += len(result.Text) + len(result.ID) + perMessage
		}
	}
	for _, t := range r.Tools {
		bytes += len(t.Name) + len(t.Description) + len(t.Schema) + perMessage
	}
	tokens := int64(math.Ceil(float64(bytes) / 3))
	if len(r.Tools) > 0 {
		tokens += toolsPreamble
	}
	return tokens
}

const (
	perMessage    = 24  // bytes that stand around a message, about
	toolsPreamble = 700 // tokens that providers add where tools are offered, at most about
)
