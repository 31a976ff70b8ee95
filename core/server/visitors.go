package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/atomicfile"
)

const (
	keySession    = 12 * time.Hour      // how long a browser stays signed in with an API key
	deviceSession = 90 * 24 * time.Hour // how long a device stays paired
	pairWithin    = 10 * time.Minute    // how long the code of a pairing is good
	setBack       = time.Hour           // by how much a clock may be set back, before what began later is not good
	maxVisitors   = 200                 // that are kept at a time
	maxOfKey      = 20                  // of them of one key
)

// Device is a browser of the user whose server it is.
type Device struct {
	Name     string    `json:"name"`
	PairedAt time.Time `json:"paired_at"`
	Until    time.Time `json:"until"`
}

// session is a browser that may see the pages: of a device, or of who has signed in with
// an API key, as long as that key is there.
type session struct {
	Hash    string    `json:"sha256"` // of the cookie
	Device  string    `json:"device,omitempty"`
	Key     string    `json:"key,omitempty"`
	KeyHash string    `json:"key_sha256,omitempty"`
	At      time.Time `json:"at"`
	Until   time.Time `json:"until"`
}

// pairing is a code with which one browser becomes a device.
type pairing struct {
	Hash  string    `json:"sha256"` // of the code
	Name  string    `json:"name"`
	Until time.Time `json:"until"`
}

// Visitors are the browsers that may see the pages. They are kept in one file, which has
// hashes only; changes of it count at once. What cannot be read lets nobody in.
type Visitors struct {
	file  string
	clock core.Clock
}

type visitorsFile struct {
	Sessions []session `json:"sessions"`
	Pairings []pairing `json:"pairings"`
}

// NewVisitors returns the visitors of a file, which need not exist.
func NewVisitors(file string, clock core.Clock) *Visitors { return &Visitors{file: file, clock: clock} }

// Pair begins the pairing of a device: whoever brings the code in time, once, is it.
func (v *Visitors) Pair(ctx context.Context, name string) (code string, until time.Time, err error) {
	if !keyName.MatchString(name) {
		return "", until, core.Errorf(core.CodeInvalidArguments, "%q is no name for a device: use a to z, 0 to 9, - and _, at most 63 of them", core.Visible(name, 70, false))
	}
	if code, err = secret(16); err != nil {
		return "", until, err
	}
	until = v.clock.Now().UTC().Add(pairWithin)
	err = v.change(ctx, func(f *visitorsFile) error {
		if slices.ContainsFunc(f.Sessions, func(s session) bool { return s.Device == name }) {
			return core.Errorf(core.CodeInvalidArguments, "there is a device %q already; remove it first, or take another name", name).WithNext("pml", "pair", "rm", name)
		}
		f.Pairings = slices.DeleteFunc(f.Pairings, func(p pairing) bool { return p.Name == name })
		f.Pairings = append(f.Pairings, pairing{Hash: hashOf(code), Name: name, Until: until})
		return nil
	})
	return code, until, err
}

// pairingOf is the name of the device that a code is for; false for a code that is not
// good. It uses nothing up.
func (v *Visitors) pairingOf(code string) (name string, ok bool, err error) {
	f, err := v.read()
	if i := f.pairing(code); err == nil && i >= 0 {
		return f.Pairings[i].Name, true, nil
	}
	return "", false, err
}

// redeem makes a device of whoever brings the code, and uses the code up.
func (v *Visitors) redeem(ctx context.Context, code string) (token string, s session, err error) {
	if token, err = secret(32); err != nil {
		return "", s, err
	}
	now := v.clock.Now().UTC()
	err = v.change(ctx, func(f *visitorsFile) error {
		i := f.pairing(code)
		if i < 0 {
			return core.Errorf(core.CodeAuth, "this pairing is not good any more: it was used, or is older than %d minutes. Begin another one on the machine", int(pairWithin.Minutes())).WithNext("pml", "pair", "NAME")
		}
		s = session{Hash: hashOf(token), Device: f.Pairings[i].Name, At: now, Until: now.Add(deviceSession)}
		f.Pairings = slices.Delete(f.Pairings, i, i+1)
		f.Sessions = append(f.Sessions, s)
		return nil
	})
	return token, s, err
}

// signIn begins a session of an API key.
func (v *Visitors) signIn(ctx context.Context, key, keyHash string) (token string, s session, err error) {
	if token, err = secret(32); err != nil {
		return "", s, err
	}
	now := v.clock.Now().UTC()
	s = session{Hash: hashOf(token), Key: key, KeyHash: keyHash, At: now, Until: now.Add(keySession)}
	err = v.change(ctx, func(f *visitorsFile) error {
		f.Sessions = append(f.Sessions, s)
		return nil
	})
	return token, s, err
}

// signOut ends a session. A device is forgotten with it.
func (v *Visitors) signOut(ctx context.Context, hash string) error {
	return v.change(ctx, func(f *visitorsFile) error {
		f.Sessions = slices.DeleteFunc(f.Sessions, func(s session) bool { return s.Hash == hash })
		return nil
	})
}

// session is that of a cookie.
func (v *Visitors) session(token string) (s session, ok bool, err error) {
	f, err := v.read()
	got := []byte(hashOf(token))
	for _, one := range f.Sessions {
		if subtle.ConstantTimeCompare(got, []byte(one.Hash)) == 1 {
			s, ok = one, true
		}
	}
	return s, ok && err == nil, err
}

// Devices lists the devices by name.
func (v *Visitors) Devices() ([]Device, error) {
	f, err := v.read()
	out := []Device{}
	for _, s := range f.Sessions {
		if s.Device != "" {
			out = append(out, Device{Name: s.Device, PairedAt: s.At, Until: s.Until})
		}
	}
	slices.SortFunc(out, func(a, b Device) int { return a.PairedAt.Compare(b.PairedAt) })
	return out, err
}

// Remove forgets a device, or takes back a pairing that has not ended: whoever has it is
// refused from the next request on.
func (v *Visitors) Remove(ctx context.Context, name string) error {
	return v.change(ctx, func(f *visitorsFile) error {
		n := len(f.Sessions) + len(f.Pairings)
		var names []string
		for _, s := range f.Sessions {
			if s.Device != "" {
				names = append(names, s.Device)
			}
		}
		f.Sessions = slices.DeleteFunc(f.Sessions, func(s session) bool { return s.Device != "" && s.Device == name })
		f.Pairings = slices.DeleteFunc(f.Pairings, func(p pairing) bool { return p.Name == name })
		if len(f.Sessions)+len(f.Pairings) == n {
			return core.Errorf(core.CodeNotFound, "there is no device %q%s", core.Visible(name, 70, false), core.Suggest(name, names)).WithNext("pml", "pair", "ls")
		}
		return nil
	})
}

// pairing is the index of the pairing that has a code, -1 for none.
func (f visitorsFile) pairing(code string) int {
	got, at := []byte(hashOf(code)), -1
	for i, p := range f.Pairings {
		if subtle.ConstantTimeCompare(got, []byte(p.Hash)) == 1 {
			at = i
		}
	}
	return at
}

// read reads the file, without what has run out, or begins in the future: a clock that was
// wrong for a while makes nothing last for years.
func (v *Visitors) read() (f visitorsFile, err error) {
	data, err := os.ReadFile(v.file)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	if err != nil {
		return visitorsFile{}, core.Errorf(core.CodeStoreFailed, "who may see the pages cannot be read: %w; nobody is let in. Remove %s to begin anew: each browser signs in again, each device is paired again", err, v.file)
	}
	good := func(hash string, at, until time.Time) bool {
		now := v.clock.Now()
		return len(hash) == 2*sha256.Size && now.Before(until) && !at.After(now.Add(setBack))
	}
	f.Sessions = slices.DeleteFunc(f.Sessions, func(s session) bool { return !good(s.Hash, s.At, s.Until) })
	f.Pairings = slices.DeleteFunc(f.Pairings, func(p pairing) bool { return !good(p.Hash, p.Until.Add(-pairWithin), p.Until) })
	return f, nil
}

// bound ends the oldest sessions of API keys where they are too many, first those of a key
// that has too many by itself: who signs in again and again shuts nobody else out. Devices
// stay until somebody removes them.
func (f *visitorsFile) bound() {
	of := map[string]int{}
	for _, s := range f.Sessions {
		of[s.Key]++
	}
	f.Sessions = slices.DeleteFunc(f.Sessions, func(s session) bool {
		more := s.Device == "" && of[s.Key] > maxOfKey
		if more {
			of[s.Key]--
		}
		return more
	})
	n := len(f.Sessions)
	f.Sessions = slices.DeleteFunc(f.Sessions, func(s session) bool {
		more := s.Device == "" && n > maxVisitors
		if more {
			n--
		}
		return more
	})
}

// change changes the file, one process after the other.
func (v *Visitors) change(ctx context.Context, do func(f *visitorsFile) error) error {
	unlock, err := atomicfile.Lock(ctx, v.file+".lock")
	if err != nil {
		return core.Errorf(core.CodeStoreBusy, "who may see the pages cannot be changed: %w", err)
	}
	defer unlock()
	f, err := v.read()
	if err != nil {
		return err
	}
	if err := do(&f); err != nil {
		return err
	}
	f.bound()
	data, err := json.MarshalIndent(f, "", "  ")
	if err == nil {
		err = atomicfile.Write(v.file, append(data, '\n'), 0o600)
	}
	if err != nil {
		return core.Errorf(core.CodeStoreFailed, "who may see the pages cannot be kept: %w", err)
	}
	return nil
}

// secret is a text of random bytes that nobody guesses.
func secret(bytes int) (string, error) {
	raw := make([]byte, bytes)
	if _, err := rand.Read(raw); err != nil {
		return "", core.Errorf(core.CodeInternal, "no random bytes: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(raw), nil
}
