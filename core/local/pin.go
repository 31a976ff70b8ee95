package local

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
	"unicode/utf8"

	"golang.org/x/crypto/bcrypt"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/atomicfile"
	"github.com/casys-ai/pml/core/env"
)

// A PIN is slow to check, so that its hash is slow to guess.
const (
	pinCost       = 12
	minPinLetters = 6
	maxPinBytes   = 72 // more would not count in a bcrypt hash
)

// Wrong PINs: the first ones are free, each further one must wait twice as
// long as the one before it.
const (
	freePins   = 5
	firstWait  = 5 * time.Second
	longestPin = 15 * time.Minute
)

// pinTries counts wrong PINs.
type pinTries struct {
	Wrong int       `json:"wrong"`
	Last  time.Time `json:"last"`
}

// pinFile is the file that counts wrong PINs: for all processes of this home,
// and over their ends. Each owner of an API key has a count of its own, so that
// nobody keeps others, nor the person at this machine, from approving.
type pinFile struct {
	pinTries
	Owners map[string]pinTries `json:"owners,omitempty"`
}

// of is the count of an owner; the person at this machine is none.
func (f *pinFile) of(owner string) pinTries {
	if owner == "" {
		return f.pinTries
	}
	return f.Owners[owner]
}

func (f *pinFile) set(owner string, t pinTries) {
	switch {
	case owner == "":
		f.pinTries = t
	case t == pinTries{}:
		delete(f.Owners, owner)
	default:
		if f.Owners == nil {
			f.Owners = map[string]pinTries{}
		}
		f.Owners[owner] = t
	}
}

// NeedsPin reports whether approvals need a PIN here.
func (c *Client) NeedsPin(context.Context) (bool, error) {
	cfg, err := c.load()
	if err != nil {
		return false, err
	}
	return cfg.Approvals.Pin != "", nil
}

// checkPin lets a decision through that a person has typed the PIN for; where
// none is set, every one. It fails closed: with core.CodeAuth when the PIN is
// missing, wrong, or given again too soon after wrong ones, and with
// core.CodeStoreFailed when wrong ones cannot be counted. next is the command
// that asks for the PIN.
func (c *Client) checkPin(pin string, next ...string) error {
	cfg, err := c.load()
	if err != nil || cfg.Approvals.Pin == "" {
		return err
	}
	if pin == "" {
		return core.Errorf(core.CodeAuth, "this needs the PIN that is set on this machine (approvals.pin); a person types it at the prompt, and it stays undecided until then").
			WithNext(next...)
	}
	return c.provePin(cfg.Approvals.Pin, pin, next...)
}

// provePin compares a PIN with its hash. The try counts as a wrong one until
// it has proved right: a kill in between gives nobody another one.
func (c *Client) provePin(hash, pin string, next ...string) error {
	if err := c.countPin(); err != nil {
		return err
	}
	err := bcrypt.ErrMismatchedHashAndPassword
	if len(pin) <= maxPinBytes {
		err = bcrypt.CompareHashAndPassword([]byte(hash), []byte(pin))
	}
	switch {
	case err == nil:
		if err := c.withPins(func(t *pinTries) error { *t = pinTries{}; return nil }); err != nil {
			c.o.Logger.Warn("the PIN was right, but wrong ones before it still count", "error", err)
		}
		return nil
	case errors.Is(err, bcrypt.ErrMismatchedHashAndPassword):
		c.o.Logger.Warn("a wrong PIN was given")
		// Also when nobody waits for the answer any more.
		if err := c.record(context.Background(), core.AuditRow{Outcome: core.ApprovalDenied, Reason: "wrong PIN"}); err != nil {
			c.o.Logger.Warn("a wrong PIN is not in the audit log", "error", err)
		}
		return core.Errorf(core.CodeAuth, "the PIN is wrong; nothing was decided, a person types it at the prompt").WithNext(next...)
	}
	return core.Errorf(core.CodeInvalidConfig, "approvals.pin in %s is not the hash of a PIN, so nothing can be approved (%w); remove it there and set a new one",
		c.o.Home.Config(), err).WithNext("pml", "config", "pin")
}

// countPin counts a try, or refuses it when it comes too soon.
func (c *Client) countPin() error {
	return c.withPins(func(t *pinTries) error {
		now := c.now()
		if t.Last.After(now) {
			t.Last = now // the clock was set back: the wait begins now
		}
		if until := t.Last.Add(t.wait()); now.Before(until) {
			return core.Errorf(core.CodeAuth, "a wrong PIN was given %d times; the next try counts from %s on", t.Wrong, until.UTC().Format(time.RFC3339))
		}
		*t = pinTries{Wrong: t.Wrong + 1, Last: now}
		return nil
	})
}

// wait is how long after the last wrong PIN the next one is refused unseen.
func (t pinTries) wait() time.Duration {
	if t.Wrong < freePins {
		return 0
	}
	d := firstWait
	for range t.Wrong - freePins {
		if d *= 2; d >= longestPin {
			return longestPin
		}
	}
	return d
}

// withPins changes this owner's count of wrong PINs, one process at a time. What
// change did is kept even if it refuses.
func (c *Client) withPins(change func(*pinTries) error) error {
	unlock, err := c.exclusive()
	if err != nil {
		return err
	}
	defer unlock()
	file, err := c.pins()
	if err != nil {
		return err
	}
	t := file.of(c.scope.Owner)
	before := t
	refused := change(&t)
	if t == before {
		return refused
	}
	file.set(c.scope.Owner, t)
	data, err := json.Marshal(file)
	if err == nil {
		err = atomicfile.Write(c.pinsPath(), data, 0o600)
	}
	if err != nil {
		return errors.Join(refused, core.Errorf(core.CodeStoreFailed, "wrong PINs cannot be counted, so none is accepted: %w; make %s writable", err, c.pinsPath()))
	}
	return refused
}

func (c *Client) pinsPath() string { return filepath.Join(c.o.Home.Dir, "pin.json") }

// pins are the counts of wrong PINs.
func (c *Client) pins() (pinFile, error) {
	var t pinFile
	data, err := os.ReadFile(c.pinsPath())
	if err == nil {
		err = json.Unmarshal(data, &t)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return t, core.Errorf(core.CodeStoreFailed, "wrong PINs cannot be counted, so none is accepted: %w; make %s readable or remove it", err, c.pinsPath())
	}
	return t, nil
}

// PinChange sets the PIN of approvals.pin in the home's configuration, or
// removes it when fresh is empty. An existing PIN must be given, and counts as
// any other try. Errors: core.CodeInvalidArguments for a PIN that is too short
// or too long, those of checkPin for an old one that is not right.
func (c *Client) PinChange(_ context.Context, old, fresh string) (api.ChangeSet, error) {
	if err := c.checkPin(old, "pml", "config", "pin"); err != nil {
		return api.ChangeSet{}, err
	}
	if fresh != "" && (!utf8.ValidString(fresh) || core.Visible(fresh, 0, false) != fresh || utf8.RuneCountInString(fresh) < minPinLetters || len(fresh) > maxPinBytes) {
		return api.ChangeSet{}, core.Errorf(core.CodeInvalidArguments, "a PIN has at least %d characters that can be typed, and at most %d bytes", minPinLetters, maxPinBytes)
	}
	hash := ""
	if fresh != "" {
		sum, err := bcrypt.GenerateFromPassword([]byte(fresh), pinCost)
		if err != nil {
			return api.ChangeSet{}, core.Errorf(core.CodeInternal, "cannot hash the PIN: %w", err)
		}
		hash = string(sum)
	}
	file := c.o.Home.Config()
	before, err := c.current(file)
	if err != nil {
		return api.ChangeSet{}, err
	}
	after, err := env.SetPin(file, before, hash)
	if err != nil {
		return api.ChangeSet{}, err
	}
	ch, err := c.change(file, before, after)
	if err != nil {
		return api.ChangeSet{}, err
	}
	return changeSet(ch), nil
}
