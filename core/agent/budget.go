package agent

import (
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/model"
)

// most is how much of a budget is used when a person is asked for more.
const most = 0.8

// question is what a person is asked before a request, nil for nothing: that the agent may
// use as much again. It is asked once, when most of a budget is used or what is left does
// not reach for an answer, and only where a yes helps. The request is made as if the answer
// were yes.
func (l *Loop) question(req model.Request, most int) *Question {
	b := l.spec.Budget
	if !b.Ask || l.asksMore || l.answered >= l.spec.Iterations {
		return nil
	}
	if _, ok := l.affordable(req, most); ok && !l.mostUsed() {
		return nil
	}
	q := &Question{
		Iterations: l.answers, Calls: l.total.Calls, Usage: l.used(), Budget: b,
		More: core.AgentMore{Tokens: b.Tokens, USD: b.USD, Calls: b.Calls},
	}
	l.spec.Extend(q.More)
	if _, ok := l.affordable(req, most); !ok {
		l.spec.Budget = b
		return nil
	}
	l.asksMore, l.before = true, b
	return q
}

// mostUsed reports whether most of a budget is used.
func (l *Loop) mostUsed() bool {
	b, u := l.spec.Budget, l.total.Usage
	used := func(n, limit float64) bool { return limit > 0 && n >= most*limit }
	return used(float64(u.Tokens()), float64(b.Tokens)) || u.USD != nil && used(*u.USD, b.USD) || used(float64(l.total.Calls), float64(b.Calls))
}

// used is what the agent has used so far, as of now.
func (l *Loop) used() core.AgentUsage {
	u := l.total.Usage
	if u.USD != nil {
		usd := *u.USD
		u.USD = &usd
	}
	return u
}

// affordable is how many tokens the answer to a request may have, of which most is the
// bound, so that even the longest one stays within the budget; ok is false where nothing
// useful is left.
func (l *Loop) affordable(req model.Request, most int) (tokens int, ok bool) {
	l.estimated = int(model.Estimate(req))
	tokens = most
	u := l.total.Usage
	if limit := l.spec.Budget.Tokens; limit > 0 {
		tokens = min(tokens, limit-u.Tokens()-l.estimated)
	}
	if limit, p := l.spec.Budget.USD, l.spec.Price; limit > 0 && u.USD == nil {
		return 0, false // nobody knows what is left
	} else if limit > 0 && p != nil {
		left := limit - *u.USD - float64(l.estimated)*max(p.Input, p.CacheWrite)/1e6
		if left < 0 {
			return 0, false
		}
		if p.Output > 0 {
			tokens = int(min(float64(tokens), left*1e6/p.Output))
		}
	}
	return tokens, tokens >= min(leastAnswer, most)
}

// share divides what is left of the budget among runs that begin together, of which
// there are at most as many as calls are left: none of them can pass the budget,
// whatever the others spend. What one leaves over is there for the next answer.
func (l *Loop) share(runs []Run) {
	u, usd := l.total.Usage, 0.0
	if u.USD != nil {
		usd = *u.USD
	}
	b := l.spec.Budget
	b.Ask = false
	rest := b.Rest(u.Tokens(), usd, l.total.Calls)
	part := rest.Share(len(runs))
	for i := range runs {
		runs[i].Budget = part
		runs[i].Budget.Calls = rest.Calls / (len(runs) - i)
		rest.Calls -= runs[i].Budget.Calls
	}
}

// mostTokens is more than any model reads or writes for one answer; sums of it stay numbers.
const mostTokens = 1 << 40

func plausible(u model.Usage) bool {
	return min(u.Input, u.Output, u.CacheRead, u.CacheWrite) >= 0 && max(u.Input, u.Output, u.CacheRead, u.CacheWrite) <= mostTokens
}

// spend adds what an answer has used. Where its provider does not say, or says what
// cannot be, the request and the answer are estimated: a budget holds all the same.
func (l *Loop) spend(a model.Answer) {
	var u model.Usage
	t := &l.total.Usage
	if a.Usage == nil || !plausible(*a.Usage) {
		t.Unreported++
		said := model.Request{Messages: []model.Message{{Answer: a.Blocks}}}
		u = model.Usage{Input: int64(l.estimated), Output: model.Estimate(said)}
	} else {
		u = *a.Usage
	}
	t.Input += int(u.Input)
	t.Output += int(u.Output)
	t.CacheRead += int(u.CacheRead)
	t.CacheWrite += int(u.CacheWrite)
	if p := l.spec.Price; p != nil && t.USD != nil {
		*t.USD += (float64(u.Input)*p.Input + float64(u.Output)*p.Output + float64(u.CacheRead)*p.CacheRead + float64(u.CacheWrite)*p.CacheWrite) / 1e6
	}
}
