package setup

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/store"
)

// A PIN is slow to check, so that its hash is slow to guess.
const pinCost = 12

// Wrong PINs: the first ones are free, each further one must wait twice as
// long as the one before it.
const (
	freePins   = 5
	firstWait  = 5 * time.Second
	longestPin = 15 * time.Minute
)

// Pin is the PIN that decisions may need.
type Pin struct{ base }

// Guard is what decisions need here. A store that needs no PIN takes over the one
// that the home's configuration has, with the wrong tries that an older pml has
// counted in the home: from then on what the store says counts, for every process
// that uses it.
func (p *Pin) Guard(ctx context.Context) (core.Guard, error) {
	g, err := p.o.Store.Guard(ctx)
	if err != nil || g.Pin != "" {
		return g, err
	}
	cfg, err := p.load()
	if err != nil || cfg.Approvals.Pin == "" {
		return g, err
	}
	tries, err := p.oldTries()
	if err != nil {
		return g, err
	}
	// Whoever can write the configuration must not become a person by a PIN of their own,
	// nor by asking for an owner or a folder that has no runs.
	runs, err := p.o.Whole.Runs(ctx, store.RunFilter{Limit: 1})
	if err != nil {
		return g, err
	}
	row := p.o.Audit.Row(core.AuditRow{Outcome: core.ApprovalApproved, Reason: "the PIN of config.json counts for this store"})
	faster := false
	err = p.o.Store.ChangeGuard(ctx, func(g *core.Guard) error {
		if faster = g.Pin != ""; faster {
			return errFaster
		}
		g.Pin, g.Tries, g.Unproved = cfg.Approvals.Pin, tries, len(runs) > 0
		return nil
	}, row)
	if err != nil && !faster {
		return g, err
	}
	return p.o.Store.Guard(ctx)
}

// errFaster keeps what another process has written, or this one before it lost the answer.
var errFaster = errors.New("the store has a PIN already")

// NeedsPin reports whether approvals need a PIN here.
func (p *Pin) NeedsPin(ctx context.Context) (bool, error) {
	g, err := p.Guard(ctx)
	return g.Pin != "", err
}

// ShowsPerson reports whether the PIN shows that somebody is a person: one is set, and it was
// typed at a terminal or was there before the first run.
func (p *Pin) ShowsPerson(ctx context.Context) (bool, error) {
	g, err := p.Guard(ctx)
	return g.Pin != "" && !g.Unproved, err
}

// Typed notes that a person has typed the PIN of this hash at a terminal: it shows a person
// from here on.
func (p *Pin) Typed(ctx context.Context, proved string) error {
	g, err := p.o.Store.Guard(ctx)
	if err != nil || !g.Unproved || proved == "" {
		return err
	}
	return p.o.Store.ChangeGuard(ctx, func(g *core.Guard) error {
		if g.Pin == proved {
			g.Unproved = false
		}
		return nil
	})
}

// Check lets through what a person has typed the PIN for; where none is set,
// everything. It returns the hash that the PIN was right for. It fails closed:
// with core.CodeAuth when the PIN is missing, wrong, or given again too soon after
// wrong ones, and with core.CodeStoreFailed when wrong ones cannot be counted. next
// is the command that asks for the PIN.
func (p *Pin) Check(ctx context.Context, pin string, next ...string) (proved string, err error) {
	g, err := p.Guard(ctx)
	if err != nil || g.Pin == "" {
		return "", err
	}
	if pin == "" {
		return "", core.Errorf(core.CodeAuth, "this needs the PIN that is set here; a person types it at the prompt, and it stays undecided until then").
			WithNext(next...)
	}
	return g.Pin, p.provePin(ctx, g.Pin, pin, next...)
}

// provePin compares a PIN with its hash. The try counts as a wrong one until
// it has proved right: a kill in between gives nobody another one.
func (p *Pin) provePin(ctx context.Context, hash, pin string, next ...string) error {
	if err := p.countPin(ctx); err != nil {
		return err
	}
	err := bcrypt.ErrMismatchedHashAndPassword
	if len(pin) <= api.MaxPinBytes {
		err = bcrypt.CompareHashAndPassword([]byte(hash), []byte(pin))
	}
	switch {
	case err == nil:
		if err := p.withTries(ctx, func(t *core.PinTries) error { *t = core.PinTries{}; return nil }); err != nil {
			p.o.Logger.Warn("the PIN was right, but wrong ones before it still count", "error", err)
		}
		return nil
	case errors.Is(err, bcrypt.ErrMismatchedHashAndPassword):
		p.o.Logger.Warn("a wrong PIN was given")
		// Also when nobody waits for the answer any more.
		if err := p.o.Audit.Record(context.Background(), core.AuditRow{Outcome: core.ApprovalDenied, Reason: "wrong PIN"}); err != nil {
			p.o.Logger.Warn("a wrong PIN is not in the audit log", "error", err)
		}
		return core.Errorf(core.CodeAuth, "the PIN is wrong; nothing was decided, a person types it at the prompt").WithNext(next...)
	}
	return core.Errorf(core.CodeInvalidConfig, "what the store keeps as the PIN is not the hash of one, so nothing can be approved (%w); docs/approvals.md says how to remove it", err)
}

// countPin counts a try, or refuses it when it comes too soon.
func (p *Pin) countPin(ctx context.Context) error {
	return p.withTries(ctx, func(t *core.PinTries) error {
		now := p.now()
		if t.Last.After(now) {
			t.Last = now // the clock was set back: the wait begins now
		}
		if until := t.Last.Add(pinWait(t.Wrong)); now.Before(until) {
			return core.Errorf(core.CodeAuth, "a wrong PIN was given %d times; the next try counts from %s on", t.Wrong, until.UTC().Format(time.RFC3339))
		}
		*t = core.PinTries{Wrong: t.Wrong + 1, Last: now}
		return nil
	})
}

// pinWait is how long after the last of so many wrong PINs the next one is refused
// unseen.
func pinWait(wrong int) time.Duration {
	if wrong < freePins {
		return 0
	}
	d := firstWait
	for range wrong - freePins {
		if d *= 2; d >= longestPin {
			return longestPin
		}
	}
	return d
}

// withTries changes this owner's count of wrong PINs, in the store: for all
// processes, and over their ends. Each owner of an API key has a count of its own,
// so that nobody keeps others, nor the person at this machine, from approving. What
// change did is kept even if it refuses.
func (p *Pin) withTries(ctx context.Context, change func(*core.PinTries) error) error {
	var refused error
	err := p.o.Store.ChangeGuard(ctx, func(g *core.Guard) error {
		t := g.Tries[p.o.Scope.Owner]
		refused = change(&t)
		tries := map[string]core.PinTries{}
		maps.Copy(tries, g.Tries)
		if tries[p.o.Scope.Owner] = t; t == (core.PinTries{}) {
			delete(tries, p.o.Scope.Owner)
		}
		g.Tries = tries
		return nil
	})
	if err != nil {
		return core.Errorf(core.CodeStoreFailed, "wrong PINs cannot be counted, so none is accepted: %w", err)
	}
	return refused
}

// oldTries are the wrong PINs that an older pml has counted in pin.json.
func (p *Pin) oldTries() (map[string]core.PinTries, error) {
	path := filepath.Join(p.o.Home.Dir, "pin.json")
	var f struct {
		core.PinTries
		Owners map[string]core.PinTries `json:"owners"`
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	if err != nil {
		return nil, core.Errorf(core.CodeStoreFailed, "wrong PINs cannot be counted, so none is accepted: %w; make %s readable or remove it", err, path)
	}
	out := map[string]core.PinTries{"": f.PinTries}
	maps.Copy(out, f.Owners)
	return out, nil
}

// AdoptPin makes the store want the PIN that the home's configuration has now, or
// none when it has none. old is the PIN that the store wants so far, which it
// needs: who can write the configuration alone changes nothing. atTerminal says that a person
// has typed the new one at a terminal.
func (p *Pin) AdoptPin(ctx context.Context, old string, atTerminal bool) error {
	if p.o.Scope.Owner != "" || p.o.Scope.Confined {
		return core.Errorf(core.CodePermissionDenied, "the person at the machine of the server sets its PIN; nothing was changed").WithNext("pml", "config", "pin")
	}
	cfg, err := p.load()
	if err != nil {
		return err
	}
	g, err := p.Guard(ctx)
	if err != nil {
		return err
	}
	if g.Pin == cfg.Approvals.Pin {
		if atTerminal {
			return p.Typed(ctx, g.Pin)
		}
		return nil
	}
	proved, err := p.Check(ctx, old, "pml", "config", "pin")
	if err != nil {
		return err
	}
	what := "changed the PIN that decisions need"
	if cfg.Approvals.Pin == "" {
		what = "removed the PIN that decisions need"
	}
	faster := false
	err = p.o.Store.ChangeGuard(ctx, func(g *core.Guard) error {
		if faster = g.Pin == cfg.Approvals.Pin; faster {
			return errFaster
		}
		if g.Pin != proved {
			return core.Errorf(core.CodeAuth, "the PIN was changed meanwhile; nothing was changed").WithNext("pml", "config", "pin")
		}
		g.Pin, g.Unproved = cfg.Approvals.Pin, cfg.Approvals.Pin != "" && !atTerminal
		return nil
	}, p.o.Audit.Row(core.AuditRow{Outcome: core.ApprovalApproved, Reason: what}))
	if faster && atTerminal {
		return p.Typed(ctx, cfg.Approvals.Pin)
	}
	if faster {
		return nil
	}
	return err
}

// PinChange sets the PIN of approvals.pin in the home's configuration, or
// removes it when fresh is empty. An existing PIN must be given, and counts as
// any other try. What the store wants changes with AdoptPin, once that is written. Errors: core.CodeInvalidArguments for a PIN that is too short
// or too long, those of Check for an old one that is not right.
func (p *Pin) PinChange(ctx context.Context, old, fresh string) (api.ChangeSet, error) {
	if _, err := p.Check(ctx, old, "pml", "config", "pin"); err != nil {
		return api.ChangeSet{}, err
	}
	hash := ""
	if fresh != "" {
		if err := api.CheckPin(fresh); err != nil {
			return api.ChangeSet{}, err
		}
		sum, err := bcrypt.GenerateFromPassword([]byte(fresh), pinCost)
		if err != nil {
			return api.ChangeSet{}, core.Errorf(core.CodeInternal, "cannot hash the PIN: %w", err)
		}
		hash = string(sum)
	}
	file := p.o.Home.Config()
	before, err := current(file)
	if err != nil {
		return api.ChangeSet{}, err
	}
	after, err := env.SetPin(file, before, hash)
	if err != nil {
		return api.ChangeSet{}, err
	}
	ch, err := p.Change(file, before, after)
	if err != nil {
		return api.ChangeSet{}, err
	}
	return changeSet(ch), nil
}
