package bolt_test

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	bbolt "go.etcd.io/bbolt"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/skiptest"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/bolt"
)

// contents lists all that a database holds, but for the stamp of the indexes.
func contents(t *testing.T, path string) []string {
	t.Helper()
	raw := read(t, path)
	file := filepath.Join(t.TempDir(), "copy.db")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	checkPages(t, file)
	db, err := bbolt.Open(file, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var all []string
	var walk func(at string, b *bbolt.Bucket) error
	walk = func(at string, b *bbolt.Bucket) error {
		all = append(all, fmt.Sprintf("%s #%d", at, b.Sequence()))
		return b.ForEach(func(k, v []byte) error {
			name := at + "/" + hex.EncodeToString(k)
			if v == nil {
				return walk(name, b.Bucket(k))
			}
			if string(k) != "indexed" {
				all = append(all, name+" = "+hex.EncodeToString(v))
			}
			return nil
		})
	}
	if err := db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error { return walk(string(name), b) })
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// waiting is a run with an approval that nobody has decided.
type waiting struct {
	run      core.Run
	approval core.Approval
}

// worker commits something through a store, again and again.
type worker struct {
	s    *bolt.Store
	open []waiting
}

func (p *worker) work(t *testing.T, rng *rand.Rand) {
	t.Helper()
	ctx := t.Context()
	var err error
	switch n := rng.IntN(11); {
	case len(p.open) == 0 || n < 5:
		var w waiting
		if w.run, w.approval, err = createWaiting(p.s, len(p.open)%5 == 0); err == nil {
			p.open = append(p.open, w)
		}
	case n < 8:
		a := p.open[len(p.open)-1].approval
		p.open = p.open[:len(p.open)-1]
		_, err = p.s.Decide(ctx, core.Decision{ApprovalID: a.ID, Approved: n == 5, At: time.Now(), By: core.Actor{Who: "x"}}, store.Renewal{})
	case n == 8:
		run := p.open[0].run
		p.open = p.open[1:]
		run.State = core.RunComplete
		if err = p.s.Commit(ctx, store.Step{Run: run}); err == nil {
			err = p.s.Remove(ctx, run.ID)
		}
	case n == 9: // fails before it is in the file, or after
		p.s.FailCommit(rng.IntN(2) == 0)
		if _, _, failed := createWaiting(p.s, false); failed == nil {
			t.Fatal("a commit that failed is acknowledged")
		}
	default: // many pages
		run := newRun("r")
		err = p.s.Commit(ctx, store.Step{Run: run, Create: true, Records: []core.Record{newRecord(1)},
			Program: &core.Program{Kind: core.KindCode, Version: 1, Source: strings.Repeat("x", 40<<10)}})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// torn is what a loss of power during a commit may leave of a file: bbolt writes and
// syncs the pages first, then the page that names the commit. committed says that
// this page has arrived.
func torn(rng *rand.Rand, before, after []byte) (left []byte, committed bool) {
	page := os.Getpagesize()
	meta := int(lastCommit(after)%2) * page
	left = slices.Clone(after)
	if copy(left[meta:meta+page], before[meta:]); rng.IntN(3) == 0 {
		return left, false // power is lost between the two syncs
	}
	if rng.IntN(2) == 0 {
		return after, true
	}
	unit := []int{512, page}[rng.IntN(2)]
	for at := 2 * page; at < len(left); at += unit {
		if end := min(at+unit, len(left)); rng.IntN(2) == 0 {
			clear(left[at:end])
			if at < len(before) {
				copy(left[at:end], before[at:])
			}
		}
	}
	return left, false
}

// lastCommit is the number of the last commit in a file.
func lastCommit(raw []byte) uint64 {
	const txid = 16 + 48 // in each of the two pages that name a commit
	return max(binary.NativeEndian.Uint64(raw[txid:]), binary.NativeEndian.Uint64(raw[os.Getpagesize()+txid:]))
}

// TestPower loses power in the middle of commits: the file opens, and has all that
// was acknowledged, and of what was under way all or nothing.
func TestPower(t *testing.T) {
	t.Parallel()
	for seed := range uint64(skiptest.Brief(2, 12)) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 7))
			open, name := open, "pending.db"
			if seed%2 == 1 {
				open, name = openExclusive, "server.db"
			}
			dir := t.TempDir()
			p := &worker{s: open(t, dir, wall{})}
			p.work(t, rng)
			for range 30 {
				before := read(t, filepath.Join(dir, name))
				p.work(t, rng)
				after := read(t, filepath.Join(dir, name))
				if lastCommit(after) != lastCommit(before)+1 || rng.IntN(3) > 0 {
					continue // none, or several
				}
				left, committed := torn(rng, before, after)
				want := before
				if committed {
					want = after
				}
				wantContents(t, open, name, left, want)
			}
		})
	}
}

// wantContents opens a file that a loss of power has left, and writes to it.
func wantContents(t *testing.T, open func(testing.TB, string, core.Clock) *bolt.Store, name string, left, want []byte) {
	t.Helper()
	dir := t.TempDir()
	path, whole := filepath.Join(dir, name), filepath.Join(dir, "whole.db")
	for path, raw := range map[string][]byte{path: left, whole: want} {
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := contents(t, path); !slices.Equal(got, contents(t, whole)) {
		t.Fatal("what was acknowledged is not what is there")
	}
	s := open(t, dir, wall{})
	if _, _, err := createWaiting(s, false); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	checkPages(t, path)
}
