package server

import (
	"slices"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
)

// tokens are those of forms: each is good once, for one approval as it was shown to one
// session, and for a while. They are kept in memory: what was shown before the server
// began is looked at again.
type tokens struct {
	clock core.Clock
	boxes
}

// tokenWithin is how long a form is good, and maxTokens how many of them a device, or a
// key, has.
const (
	tokenWithin = 15 * time.Minute
	maxTokens   = 64
)

// shownForm is what a form was made for.
type shownForm struct {
	hash     string // of the token
	session  string
	approval core.ID
	digest   string
	shape    *core.Shape // the bounds that were shown, of a form that approves the calls of a loop
	until    time.Time
}

// give makes a token for a form about an approval; with bounds, for one that gives these,
// which are kept here: what is approved is what was shown.
func (t *tokens) give(s session, ap core.Approval, shape *core.Shape) (string, error) {
	token, err := secret(24)
	if err != nil {
		return "", err
	}
	until := t.clock.Now().Add(tokenWithin)
	if ap.ExpiresAt != nil && ap.ExpiresAt.Before(until) {
		until = *ap.ExpiresAt
	}
	t.update(s, func(list []shownForm) []shownForm {
		list = append(t.good(list), shownForm{hash: hashOf(token), session: s.Hash, approval: ap.ID, digest: ap.Digest, shape: shape, until: until})
		return list[max(0, len(list)-maxTokens):]
	})
	return token, nil
}

// take uses a token up, and returns what it was given for.
func (t *tokens) take(s session, token string) (f shownForm, ok bool) {
	t.update(s, func(list []shownForm) []shownForm {
		list = t.good(list)
		i := slices.IndexFunc(list, func(f shownForm) bool { return f.session == s.Hash && f.hash == hashOf(token) })
		if i < 0 {
			return list
		}
		f, ok = list[i], true
		return slices.Delete(list, i, i+1)
	})
	return f, ok
}

func (t *tokens) good(list []shownForm) []shownForm {
	now := t.clock.Now()
	return slices.DeleteFunc(list, func(f shownForm) bool { return !now.Before(f.until) })
}

// boxes are the forms of each device and key: whoever opens many shuts out only himself.
type boxes struct {
	mu sync.Mutex
	of map[[2]string][]shownForm
}

// update changes the forms that a session is about. Who has none is forgotten.
func (b *boxes) update(s session, change func([]shownForm) []shownForm) {
	who := [2]string{s.Device, s.Key}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.of == nil {
		b.of = map[[2]string][]shownForm{}
	}
	if b.of[who] = change(b.of[who]); len(b.of[who]) == 0 {
		delete(b.of, who)
	}
}
