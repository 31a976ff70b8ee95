package redo_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/store/bolt/redo"
)

const (
	page  = 4096
	heads = 2 * page // bytes before the records
	front = 24       // bytes of a record before its payload
)

func open(t testing.TB, path string, limit int64) *redo.Log {
	t.Helper()
	l, err := redo.Open(path, limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func begin(t testing.TB, l *redo.Log, base, salt string) {
	t.Helper()
	if err := l.Begin([]byte(base), []byte(salt)); err != nil {
		t.Fatal(err)
	}
}

func appendTo(t testing.TB, l *redo.Log, first uint64, payloads ...string) {
	t.Helper()
	for i, p := range payloads {
		if err := l.Append(redo.Record{Commit: first + uint64(i), Payload: []byte(p)}); err != nil {
			t.Fatal(err)
		}
	}
}

// read opens a log as another process does and returns its base and payloads.
func read(t testing.TB, path string, after uint64) (base string, payloads []string) {
	t.Helper()
	l := open(t, path, 1<<20)
	raw, err := l.Load()
	if err != nil {
		t.Fatal(err)
	}
	list, err := l.Records(after, math.MaxInt)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range list {
		if r.Commit != after+1+uint64(i) {
			t.Fatalf("record %d is that of commit %d", i, r.Commit)
		}
		payloads = append(payloads, string(r.Payload))
	}
	return string(raw), payloads
}

func want(t testing.TB, path string, after uint64, base string, payloads ...string) {
	t.Helper()
	gotBase, got := read(t, path, after)
	if diff := cmp.Diff(payloads, got); diff != "" || gotBase != base {
		t.Errorf("base %q instead of %q; records (-want +got):\n%s", gotBase, base, diff)
	}
}

func contents(t testing.TB, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func write(t testing.TB, path string, raw []byte) {
	t.Helper()
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

func logPath(t testing.TB) string { return filepath.Join(t.TempDir(), "x.redo") }

func TestLog_AppendLoad(t *testing.T) {
	t.Parallel()
	path := logPath(t)
	l := open(t, path, 1<<20)
	if base, err := l.Load(); err != nil || base != nil || l.On() || !l.Empty() {
		t.Fatalf("a new log has the base %q (%v)", base, err)
	}
	begin(t, l, "base", "salt")
	want(t, path, 4, "base")
	appendTo(t, l, 5, "five", "six", "seven")
	if l.Empty() || !l.On() {
		t.Error("the log does not know its records")
	}
	want(t, path, 4, "base", "five", "six", "seven")
	want(t, path, 5, "base") // its first record is that of another commit

	other := open(t, path, 1<<20) // goes on where the records end
	if _, err := other.Load(); err != nil {
		t.Fatal(err)
	}
	if list, err := other.Records(4, 2); err != nil || len(list) != 2 {
		t.Fatalf("%d records, %v", len(list), err)
	}
	appendTo(t, other, 7, "SEVEN")
	want(t, path, 4, "base", "five", "six", "SEVEN")

	if err := l.End([]byte("end")); err != nil || l.On() || !l.Empty() {
		t.Fatalf("the log is on: %v", err)
	}
	want(t, path, 4, "")
}

// TestLog_Torn cuts the log at every byte, and changes every byte: what is left are
// the records before.
func TestLog_Torn(t *testing.T) {
	t.Parallel()
	path := logPath(t)
	l := open(t, path, 1<<20)
	begin(t, l, "base", "salt")
	payloads := []string{"one", "number two", "3"}
	appendTo(t, l, 1, payloads...)
	whole := contents(t, path)
	for at := heads; at < len(whole); at++ {
		left, end := 0, heads
		for _, p := range payloads {
			if end += front + len(p); end > at {
				break
			}
			left++
		}
		var before []string // nil, as read has it
		before = append(before, payloads[:left]...)
		write(t, path, whole[:at])
		want(t, path, 0, "base", before...)
		bad := bytes.Clone(whole)
		bad[at] ^= 0x10
		write(t, path, bad)
		want(t, path, 0, "base", before...)
	}
}

// TestLog_OtherHead: records that follow an earlier head are not those of the next
// one, also when their commits are and they lie where its records end.
func TestLog_OtherHead(t *testing.T) {
	t.Parallel()
	for name, salt := range map[string]string{"OtherSalt": "pepper", "SameSalt": "salt"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := logPath(t)
			l := open(t, path, 1<<20)
			begin(t, l, "old", "salt")
			appendTo(t, l, 5, "five", "six", "seven")
			begin(t, l, "new", salt)
			want(t, path, 4, "new")
			appendTo(t, l, 5, "FIVE")
			want(t, path, 4, "new", "FIVE")
		})
	}
}

// TestLog_TornHead: of two heads the older one counts while the newer one is not
// whole, with its records. Without any the log is off.
func TestLog_TornHead(t *testing.T) {
	t.Parallel()
	path := logPath(t)
	l := open(t, path, 1<<20)
	begin(t, l, "old", "salt 1") // in the second page
	appendTo(t, l, 5, "five")
	begin(t, l, "new", "salt 2")
	whole := contents(t, path)
	used := 32 + len("salt 2") + len("new")
	for at := range used {
		bad := bytes.Clone(whole)
		bad[at] ^= 0x10
		write(t, path, bad)
		want(t, path, 4, "old", "five")
	}
	for at := range used {
		bad := bytes.Clone(whole)
		bad[at] ^= 0x10
		bad[heads/2+at] ^= 0x10
		write(t, path, bad)
		want(t, path, 4, "")
	}
	for _, n := range []int{0, 1, 31} { // cut off
		write(t, path, whole[:n])
		want(t, path, 4, "")
	}
}

func TestLog_Limit(t *testing.T) {
	t.Parallel()
	path := logPath(t)
	l := open(t, path, heads+2*page+page/2) // the last half page is of no use
	begin(t, l, "base", "salt")
	if !l.Holds(page-front) || l.Holds(page-front+1) {
		t.Error("an empty log does not know how much it holds")
	}
	long := strings.Repeat("1", page-2*front-5)
	appendTo(t, l, 1, long)
	if !l.Fits(5) || l.Fits(6) {
		t.Error("the log does not know how much room it has")
	}
	if err := l.Append(redo.Record{Commit: 2, Payload: []byte("123456")}); !errors.Is(err, redo.ErrFull) {
		t.Errorf("too long a record: %v", err)
	}
	appendTo(t, l, 2, "12345")
	want(t, path, 0, "base", long, "12345")
	if info, err := os.Stat(path); err != nil || info.Size() != heads+page {
		t.Errorf("the file has %d bytes, %v", info.Size(), err)
	}
	base := bytes.Repeat([]byte("x"), redo.MaxBase)
	if err := l.Begin(base[4:], []byte("salt")); err != nil {
		t.Error(err)
	}
	if err := l.Begin(base[3:], []byte("salt")); err == nil {
		t.Error("a base is longer than its page")
	}
	want(t, path, 0, string(base[4:]))
}

// TestLog_Halves: heads use the halves in turn, so that the records of the one before
// are there as long as it may count.
func TestLog_Halves(t *testing.T) {
	t.Parallel()
	path := logPath(t)
	l := open(t, path, heads+4*page)
	for n := range uint64(6) {
		begin(t, l, fmt.Sprint("base ", n), fmt.Sprint("salt ", n))
		appendTo(t, l, n*10, strings.Repeat("a", page), strings.Repeat("b", page/2))
		want(t, path, n*10-1, fmt.Sprint("base ", n), strings.Repeat("a", page), strings.Repeat("b", page/2))
		if n == 0 {
			continue
		}
		raw := contents(t, path) // as it is when the head has not reached the disk
		clear(raw[(n+1)%2*page:][:page])
		lost := logPath(t)
		write(t, lost, raw)
		want(t, lost, n*10-11, fmt.Sprint("base ", n-1), strings.Repeat("a", page), strings.Repeat("b", page/2))
	}
	if info, err := os.Stat(path); err != nil || info.Size() > heads+4*page {
		t.Errorf("the file has %d bytes, %v", info.Size(), err)
	}
}

// TestLog_BeginWith: a log that begins anew with a record has that record all the
// time, whatever of it has reached the disk.
func TestLog_BeginWith(t *testing.T) {
	t.Parallel()
	path := logPath(t)
	l := open(t, path, heads+4*page)
	begin(t, l, "zero", "salt 0")
	appendTo(t, l, 1, strings.Repeat("0", page))
	begin(t, l, "old", "salt 1")
	appendTo(t, l, 5, "five", "six", "seven")
	before := contents(t, path)
	if err := l.BeginWith([]byte("new"), []byte("salt 2"), redo.Record{Commit: 7, Payload: []byte("seven")}); err != nil {
		t.Fatal(err)
	}
	after := contents(t, path)
	want(t, path, 6, "new", "seven")
	if !l.Follows(7) || l.Follows(6) || l.Empty() {
		t.Error("the log does not know its record")
	}
	appendTo(t, l, 8, "eight")
	want(t, path, 6, "new", "seven", "eight")

	record := bytes.Clone(after) // the record, which is synced first, and not the head
	copy(record, before[:heads])
	write(t, path, record)
	want(t, path, 4, "old", "five", "six", "seven")

	if err := l.BeginWith([]byte("new"), []byte("salt 3"), redo.Record{Commit: 7, Payload: make([]byte, 2*page)}); !errors.Is(err, redo.ErrFull) {
		t.Errorf("too long a record: %v", err)
	}
}

// TestLog_BeginWithPower: two processes begin a log anew with a record, of which the
// first is killed at a sync; power is lost at a sync of the second. The record is
// there, whatever of what was written since the last sync has reached the disk.
func TestLog_BeginWithPower(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for killed := range 4 {
		for cut := range 4 {
			for range 40 {
				path := logPath(t)
				l := open(t, path, heads+4*page)
				begin(t, l, "zero", "salt 0")
				appendTo(t, l, 1, strings.Repeat("0", page))
				begin(t, l, "old", "salt 1")
				appendTo(t, l, 5, strings.Repeat("5", 600), "counts")
				d := &disk{path: path, synced: contents(t, path)}
				d.again(t, 2, killed)
				if left := d.again(t, 3, cut); left == nil {
					write(t, path, d.synced)
					want(t, path, 5, "new", "counts") // the file is written after that
				} else {
					for at := 0; at < len(left); at += 512 {
						if rng.IntN(2) == 0 && at < len(d.synced) { // it was not written yet
							copy(left[at:min(at+512, len(left))], d.synced[at:])
						}
					}
					write(t, path, left)
				}
				base, list := read(t, path, 4)
				if base == "new" {
					_, list = read(t, path, 5)
				}
				if len(list) == 0 || list[len(list)-1] != "counts" {
					t.Fatalf("killed at %d, power lost at %d: base %q with %d records", killed, cut, base, len(list))
				}
			}
		}
	}
}

// disk is what a log has there.
type disk struct {
	path   string
	synced []byte
}

// again begins a log anew with the record that counts, and ends before the sync with
// this number; it returns what was written by then, nil if it came to its end.
func (d *disk) again(t *testing.T, salt, syncs int) (left []byte) {
	t.Helper()
	l := open(t, d.path, heads+4*page)
	if _, err := l.Load(); err != nil {
		t.Fatal(err)
	}
	dead := errors.New("killed")
	l.OnSync(func() error {
		now := contents(t, d.path)
		if syncs == 0 {
			left = now
			return dead
		}
		syncs--
		d.synced = now
		return nil
	})
	if err := l.BeginWith([]byte("new"), fmt.Append(nil, "salt ", salt), redo.Record{Commit: 6, Payload: []byte("counts")}); err != nil && !errors.Is(err, dead) {
		t.Fatal(err)
	}
	return left
}

// TestLog_AppendFails: of a record that could not be synced nothing is found.
func TestLog_AppendFails(t *testing.T) {
	t.Parallel()
	path := logPath(t)
	l := open(t, path, 1<<20)
	begin(t, l, "base", "salt")
	appendTo(t, l, 5, "five")
	failed := errors.New("failed")
	l.OnSync(func() error { return failed })
	if err := l.Append(redo.Record{Commit: 6, Payload: []byte("six")}); !errors.Is(err, failed) {
		t.Fatal(err)
	}
	want(t, path, 4, "base", "five")
}

// TestLog_Rest reads what follows the records that are known, and leaves it.
func TestLog_Rest(t *testing.T) {
	t.Parallel()
	path := logPath(t)
	l := open(t, path, 1<<20)
	begin(t, l, "base", "salt")
	if l.Follows(0) || l.Follows(4) {
		t.Error("the log follows a commit that it does not know")
	}
	appendTo(t, l, 5, "five", "six", "seven", "eight")
	other := open(t, path, 1<<20)
	if _, err := other.Load(); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Records(4, 2); err != nil || !other.Follows(6) {
		t.Fatalf("it does not follow 6: %v", err)
	}
	for range 2 {
		list, err := other.Rest(math.MaxInt)
		if err != nil || len(list) != 2 || list[0].Commit != 7 || string(list[1].Payload) != "eight" {
			t.Fatalf("%v, %v", list, err)
		}
	}
	if list, err := other.Rest(1); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
	if list, err := l.Rest(1); err != nil || len(list) != 0 || !l.Follows(8) {
		t.Errorf("%v, %v", list, err)
	}
}

func TestLog_Same(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change     func(t *testing.T, path string)
		here, same bool
	}{
		"Nothing": {func(*testing.T, string) {}, true, true},
		"Records": {func(t *testing.T, path string) {
			l := open(t, path, 1<<20)
			if _, err := l.Load(); err != nil {
				t.Fatal(err)
			}
			appendTo(t, l, 1, "one")
		}, true, true},
		"BegunAnew": {func(t *testing.T, path string) {
			l := open(t, path, 1<<20)
			if _, err := l.Load(); err != nil {
				t.Fatal(err)
			}
			begin(t, l, "base", "other salt")
		}, true, false},
		"Removed": {func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}, false, true},
		"Replaced": {func(t *testing.T, path string) {
			write(t, path+".new", contents(t, path))
			if err := os.Rename(path+".new", path); err != nil {
				t.Fatal(err)
			}
		}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := logPath(t)
			l := open(t, path, 1<<20)
			begin(t, l, "base", "salt")
			c.change(t, path)
			if l.Here() != c.here || l.Same() != c.same {
				t.Errorf("here: %v, same: %v", l.Here(), l.Same())
			}
		})
	}
}

// FuzzLoad: a file of any bytes is a log, and one that can be used.
func FuzzLoad(f *testing.F) {
	path := logPath(f)
	l := open(f, path, 1<<20)
	begin(f, l, "old", "salt 1")
	begin(f, l, "new", "salt 2")
	appendTo(f, l, 1, "one", "two")
	whole := contents(f, path)
	f.Add(whole)
	f.Add(whole[:heads+20])
	f.Add(whole[:30])
	f.Add(append(bytes.Clone(whole[:heads]), 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0))
	f.Fuzz(func(t *testing.T, raw []byte) {
		path := logPath(t)
		write(t, path, raw)
		l := open(t, path, 1<<20)
		base, err := l.Load()
		if err != nil || len(base) > redo.MaxBase {
			t.Fatalf("a base of %d bytes, %v", len(base), err)
		}
		list, err := l.Records(0, math.MaxInt)
		if err != nil {
			t.Fatal(err)
		}
		size := heads
		for _, r := range list {
			size += front + len(r.Payload)
		}
		if len(list) > 0 && size > len(raw) {
			t.Fatalf("%d bytes in a file of %d", size, len(raw))
		}
		if !l.Same() {
			t.Error("the head is another one at once")
		}
		begin(t, l, "base", "salt")
		appendTo(t, l, 1, "one")
		want(t, path, 0, "base", "one")
	})
}
