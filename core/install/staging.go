package install

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
)

// minStale is how old a staging folder is at least before it is garbage: longer
// than any npm run may take, so that age alone decides and no lock is needed.
const minStale = 30 * time.Minute

// dead ends the name of a folder that is being removed.
const dead = ".dead"

// staging is the folder in which trees are made, and in which they end.
type staging struct {
	base  string
	limit time.Duration // after which a folder is garbage
	clock core.Clock
	log   *slog.Logger
}

// make makes a staging folder and removes those that dead processes left. The
// folder returned is inside of what done removes.
func (s staging) make() (dir string, done func(), err error) {
	if err := os.MkdirAll(s.base, 0o700); err != nil {
		return "", nil, diskError("make a folder to install in", err)
	}
	s.sweep()
	// The name says since when, so that a folder never is there without its age.
	own, err := os.MkdirTemp(s.base, strconv.FormatInt(s.clock.Now().Unix(), 10)+"-")
	if err != nil {
		return "", nil, diskError("make a folder to install in", err)
	}
	done = func() {
		if err := os.RemoveAll(own); err != nil {
			s.log.Warn("cannot remove a staging folder", "dir", own, "error", err)
		}
	}
	dir = filepath.Join(own, "tree")
	if err := os.Mkdir(dir, 0o700); err != nil {
		done()
		return "", nil, diskError("make a folder to install in", err)
	}
	return dir, done, nil
}

// sweep removes staging folders that are older than any installation.
func (s staging) sweep() {
	for _, dir := range s.stale() {
		if err := discard(dir); err != nil {
			s.log.Warn("cannot remove a stale staging folder", "dir", dir, "error", err)
		}
	}
}

// stale returns the staging folders that nobody fills any more.
func (s staging) stale() []string {
	entries, err := os.ReadDir(s.base)
	if err != nil {
		return nil
	}
	var out []string
	now := s.clock.Now()
	for _, e := range entries {
		seconds, _, _ := strings.Cut(e.Name(), "-")
		started, err := strconv.ParseInt(seconds, 10, 64)
		if err != nil {
			continue // not one of ours
		}
		if strings.HasSuffix(e.Name(), dead) || now.Sub(time.Unix(started, 0)) > s.limit {
			out = append(out, filepath.Join(s.base, e.Name()))
		}
	}
	return out
}

// discard removes a folder. It is renamed first: should its maker live after
// all (a machine that slept), it finds nothing rather than half of its files.
func discard(dir string) error {
	gone := dir
	if !strings.HasSuffix(dir, dead) {
		gone += dead
		if err := os.Rename(dir, gone); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // another process was faster
			}
			return err
		}
	}
	return os.RemoveAll(gone)
}

// moveAway moves a tree into staging, marked as dead.
func (s staging) moveAway(home, key string) (retired, error) {
	was := filepath.Join(home, filepath.FromSlash(key))
	if err := os.MkdirAll(s.base, 0o700); err != nil {
		return retired{}, diskError("make "+s.base, err)
	}
	now := filepath.Join(s.base, strconv.FormatInt(s.clock.Now().Unix(), 10)+"-"+strings.ReplaceAll(key, "/", "+")+dead)
	err := os.RemoveAll(now) // of a kill before
	if err == nil {
		err = os.Rename(was, now)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return retired{}, nil
	case err != nil:
		return retired{}, diskError("remove "+was, err)
	}
	return retired{was, now}, syncDir(filepath.Dir(was))
}
