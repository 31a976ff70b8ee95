package audit

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/atomicfile"
)

// Refused attempts share rows of the audit log, so that one who tries again and
// again fills no disk: at most one row for what was tried in refusedEach, and at
// most maxRefused such things at a time, beyond which what was tried is not told
// apart any more.
const (
	refusedEach = time.Minute
	maxRefused  = 256
)

// refusal is what somebody tries that is refused.
type refusal struct {
	Code string        `json:"code"`
	Row  core.AuditRow `json:"row"`
	At   time.Time     `json:"at"`             // of its last row
	More int           `json:"more,omitempty"` // attempts since that row
}

// key tells refusals apart: by who, what and how.
func (r refusal) key() string {
	parts := []string{r.Row.By.Who, string(r.Row.By.Via), r.Row.By.Host(), string(r.Row.RunID), string(r.Row.ApprovalID), r.Code}
	for i, part := range parts {
		parts[i] = strconv.Quote(part)
	}
	return strings.Join(parts, " ")
}

// wide is the refusal of whatever the actor tries.
func (r refusal) wide() refusal {
	r.Row.RunID, r.Row.RunName, r.Row.ApprovalID, r.Row.Type, r.Row.Tool, r.Row.Digest = "", "", "", "", "", ""
	return r
}

// fresh reports whether the last row is too young for another one.
func (r refusal) fresh(now time.Time) bool {
	return !r.At.After(now) && now.Sub(r.At) < refusedEach
}

// refusals is what this process knows of refusedFile, which spares most attempts
// a look at it.
type refusals struct {
	mu    sync.Mutex
	known refusedFile
}

// counted counts an attempt that needs no row yet; false for one that may.
func (s *refusals) counted(r refusal, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.known[r.key()]
	if !ok && len(s.known) >= maxRefused {
		r = r.wide()
		k, ok = s.known[r.key()]
	}
	if !ok || !k.fresh(now) {
		return false
	}
	k.More++
	s.known[r.key()] = k
	return true
}

func (s *refusals) due(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known.due(now)
}

// pending reports whether attempts are counted in memory only.
func (s *refusals) pending() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.known {
		if r.More > 0 {
			return true
		}
	}
	return false
}

// take empties the memory for a change of the file, which learn ends.
func (s *refusals) take() refusedFile {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.known
	s.known = nil
	return known
}

// learn remembers what is known by now.
func (s *refusals) learn(f refusedFile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = f
}

// refusedFile is the content of the file that counts refused attempts for all
// processes of this home.
type refusedFile map[string]refusal

func (f refusedFile) add(r refusal, now time.Time) {
	kept, ok := f[r.key()]
	if !ok && len(f) >= maxRefused {
		maps.DeleteFunc(f, func(_ string, r refusal) bool { return r.More == 0 && !r.fresh(now) })
		if len(f) >= maxRefused {
			r = r.wide()
			kept, ok = f[r.key()]
		}
	}
	if ok {
		r.At, r.More = kept.At, kept.More
	}
	r.More++
	f[r.key()] = r
}

// merge adds what a process has counted.
func (f refusedFile) merge(counted refusedFile) {
	for key, r := range counted {
		if r.More == 0 {
			continue
		}
		if kept, ok := f[key]; ok {
			kept.More += r.More
			r = kept
		}
		f[key] = r
	}
}

// written is what is left to count once the file has everything.
func (f refusedFile) written() refusedFile {
	out := maps.Clone(f)
	for key, r := range out {
		r.More = 0
		out[key] = r
	}
	return out
}

func (f refusedFile) due(now time.Time) bool {
	for _, r := range f {
		if r.More > 0 && !r.fresh(now) {
			return true
		}
	}
	return false
}

// takeDue returns what needs a row now, in a fixed order, and forgets what is
// over.
func (f refusedFile) takeDue(now time.Time) []refusal {
	var out []refusal
	for _, key := range slices.Sorted(maps.Keys(f)) {
		r := f[key]
		switch {
		case r.fresh(now):
		case r.More == 0:
			delete(f, key)
		default:
			out = append(out, r)
			r.At, r.More = now, 0
			f[key] = r
		}
	}
	return out
}

// giveBack counts again what got no row.
func (f refusedFile) giveBack(list []refusal) {
	for _, r := range list {
		kept := f[r.key()]
		r.At, r.More = time.Time{}, r.More+kept.More
		f[r.key()] = r
	}
}

// refusedPath is the file of this side: each side has an audit log of its own.
func (t *Trail) refusedPath() string {
	return filepath.Join(t.o.Home.Dir, "refused-"+string(t.o.Side)+".json")
}

// readRefused reads the file. One that makes no sense counts nothing.
func (t *Trail) readRefused() (refusedFile, error) {
	f := refusedFile{}
	data, err := os.ReadFile(t.refusedPath())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, core.Errorf(core.CodeStoreFailed, "refused attempts cannot be counted: %w; make %s readable or remove it", err, t.refusedPath())
	}
	if err == nil && json.Unmarshal(data, &f) != nil || f == nil {
		f = refusedFile{}
	}
	return f, nil
}

// withRefused changes the file, one process at a time.
func (t *Trail) withRefused(change func(refusedFile)) error {
	unlock, err := t.o.Machine.Exclusive()
	if err != nil {
		return err
	}
	defer unlock()
	f, err := t.readRefused()
	if err != nil {
		return err
	}
	counted := t.refusals.take()
	f.merge(counted)
	change(f)
	data, err := json.Marshal(f)
	if err == nil {
		err = atomicfile.Write(t.refusedPath(), data, 0o600)
	}
	if err != nil {
		t.refusals.learn(counted)
		return core.Errorf(core.CodeStoreFailed, "refused attempts cannot be counted: %w; make %s writable", err, t.refusedPath())
	}
	t.refusals.learn(f.written())
	return nil
}
