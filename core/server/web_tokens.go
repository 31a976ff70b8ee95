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

// tokenWithin is how long a form is good, and maxTokens how many of them a session has.
const (
	tokenWithin = 15 * time.Minute
	maxTokens   = 32
)

// shownForm is what a form was made for.
type shownForm struct {
	hash     string // of the token
	approval core.ID
	digest   string
	until    time.Time
}

func (t *tokens) give(s session, ap core.Approval) (string, error) {
	token, err := secret(24)
	if err != nil {
		return "", err
	}
	until := t.clock.Now().Add(tokenWithin)
	if ap.ExpiresAt != nil && ap.ExpiresAt.Before(until) {
		until = *ap.ExpiresAt
	}
	t.update(s.Hash, func(list []shownForm) []shownForm {
		list = append(t.good(list), shownForm{hash: hashOf(token), approval: ap.ID, digest: ap.Digest, until: until})
		return list[max(0, len(list)-maxTokens):]
	})
	return token, nil
}

// take uses a token up, and returns what it was given for.
func (t *tokens) take(s session, token string) (f shownForm, ok bool) {
	t.update(s.Hash, func(list []shownForm) []shownForm {
		list = t.good(list)
		i := slices.IndexFunc(list, func(f shownForm) bool { return f.hash == hashOf(token) })
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

// boxes are the forms of each session.
type boxes struct {
	mu sync.Mutex
	of map[string][]shownForm
}

// update changes the forms of a session; one that has none is forgotten, and so are all
// others' when there are more sessions than visitors can be.
func (b *boxes) update(session string, change func([]shownForm) []shownForm) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.of == nil || len(b.of) > 2*maxVisitors {
		b.of = map[string][]shownForm{session: b.of[session]}
	}
	if b.of[session] = change(b.of[session]); len(b.of[session]) == 0 {
		delete(b.of, session)
	}
}
