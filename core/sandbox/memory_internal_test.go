package sandbox

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/casys-ai/pml/core"
)

// smallRoom has room for two turns of 100 bytes and 50 bytes more. What a child
// holds that waits is in sizes.
func smallRoom(sizes map[*process]int64) (r *room, ended *[]*process) {
	ended = &[]*process{}
	r = newRoom(Options{Memory: 250, Limits: Limits{MemoryBytes: 100 - childOverhead}}, func(c *process) { *ended = append(*ended, c) })
	r.size = func(c *process) (int64, bool) { n, ok := sizes[c]; return n, ok }
	return r, ended
}

// turn lets a place have a turn in which it gets a child.
func (r *room) turn(t *testing.T, pl *place, c *process) {
	t.Helper()
	if err := r.enter(t.Context(), pl); err != nil {
		t.Fatal(err)
	}
	r.hold(pl, c)
}

// TestRoom_Waits: a turn waits for its room, and takes that of a script that has
// waited for a while; one whose turn has just ended keeps its VM.
func TestRoom_Waits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b, c := &process{}, &process{}, &process{}
		r, ended := smallRoom(map[*process]int64{a: 90, b: 90})
		first, second, third := &place{}, &place{}, &place{}
		r.turn(t, first, a)
		r.turn(t, second, b)
		begun := make(chan time.Time, 1)
		began := time.Now()
		go func() {
			_ = r.enter(t.Context(), third)
			begun <- time.Now()
		}()
		synctest.Wait()
		r.rest(second) // 100 + 90 + 100 are more than 250
		r.hold(third, c)
		if waited := (<-begun).Sub(began); waited != evictAfter {
			t.Errorf("the third turn began after %s, want %s", waited, evictAfter)
		}
		if !slices.Equal(*ended, []*process{b}) || r.child(second) != nil || r.child(first) != a || r.held != 200 {
			t.Errorf("%d children ended, %d bytes are held", len(*ended), r.held)
		}
		r.leave(first)
		r.turn(t, second, b)
		r.leave(second)
		r.leave(third)
		if r.held != 0 || len(r.places) != 0 {
			t.Errorf("%d bytes are held by %d places after the end", r.held, len(r.places))
		}
	})
}

// TestRoom_Measured: scripts that wait count with what they hold, no more.
func TestRoom_Measured(t *testing.T) {
	t.Parallel()
	sizes := map[*process]int64{}
	r, ended := smallRoom(sizes)
	for range 15 {
		c, pl := &process{}, &place{}
		sizes[c] = 10
		r.turn(t, pl, c)
		r.rest(pl)
	}
	if len(*ended) != 0 || r.held > 250 {
		t.Errorf("%d children ended, %d bytes are held", len(*ended), r.held)
	}
}

// TestRoom_Owners: who holds much gives back first, and waits longest.
func TestRoom_Owners(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sizes := map[*process]int64{}
		r, ended := smallRoom(sizes)
		var of []*process
		for n, owner := range []string{"bob", "alice", "alice"} { // bob has waited longest
			c := &process{}
			sizes[c] = int64(60 + n)
			of = append(of, c)
			pl := &place{owner: owner}
			r.turn(t, pl, c)
			r.rest(pl)
			time.Sleep(evictAfter)
		}
		r.turn(t, &place{owner: "carol"}, &process{})
		if !slices.Equal(*ended, []*process{of[1]}) {
			t.Errorf("%d gave back, want the older of alice's", len(*ended))
		}
	})
}

// TestRoom_Order: of those who wait, who holds less goes first.
func TestRoom_Order(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hers := &process{}
		r, _ := smallRoom(map[*process]int64{hers: 10})
		rests, carol, erin := &place{owner: "alice"}, &place{owner: "carol"}, &place{owner: "erin"}
		r.turn(t, rests, hers)
		r.rest(rests)
		r.turn(t, carol, &process{})
		r.turn(t, erin, &process{})
		begun := make(chan string, 2)
		for _, owner := range []string{"alice", "dave"} {
			go func() { _ = r.enter(t.Context(), &place{owner: owner}); begun <- owner }()
			synctest.Wait()
		}
		r.leave(carol)
		if first := <-begun; first != "dave" {
			t.Errorf("%s goes first, who holds something already", first)
		}
		r.leave(erin)
		if second := <-begun; second != "alice" {
			t.Errorf("%s comes second", second)
		}
	})
}

// TestRoom_Cancelled: who stops waiting for room holds nothing, and one turn is
// always let begin.
func TestRoom_Cancelled(t *testing.T) {
	t.Parallel()
	r, _ := smallRoom(nil)
	r.bound(1)
	pl := &place{}
	r.turn(t, pl, &process{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.enter(ctx, &place{}); core.CodeOf(err) != core.CodeCancelled {
		t.Errorf("it may begin: %v", err)
	}
	r.leave(pl)
	if r.held != 0 || len(r.waiting) != 0 {
		t.Errorf("%d bytes are held, %d wait", r.held, len(r.waiting))
	}
}

// TestPool_Memory: scripts that hold memory and wait give their VMs back, and go
// on where they were when their answers come.
func TestPool_Memory(t *testing.T) {
	t.Parallel()
	p := NewPool(Options{Command: []string{os.Args[0], "pml-sandbox-test-child"}, Warm: -1, Memory: 400 << 20, Limits: Limits{CPU: 10 * time.Minute}})
	t.Cleanup(func() { _ = p.Close() })
	const script = `const mine = [input, Math.random(), crypto.randomUUID()]; console.log("once")
const keep = []; for (let i = 0; i < 60; i++) keep.push(new Uint8Array(1 << 20).fill(1))
const told = await mcp.a.b({n: input}); clearTimeout(setTimeout(() => {}, 5)); const late = await mcp.a.c({told})
return [mine[0] === input && mine[1] < 1 && mine[2].length, told, late, keep.length]`
	var list []*Session
	for i := range 6 {
		s, turn, err := p.Open(t.Context(), Start{Script: script, Seed: strconv.Itoa(i), Input: fmt.Append(nil, i), Now: time.UnixMilli(1)})
		if err != nil || len(turn.Calls) != 1 || len(turn.Logs) != 1 {
			t.Fatal(err, turn)
		}
		list = append(list, s)
	}
	if n := p.Children(); n > 4 {
		t.Errorf("%d children live, each of which holds 60 MB and may take 160 of 400", n)
	}
	for i, s := range list {
		turn, err := s.Deliver(t.Context(), []Delivery{{Seq: 1, CallID: 1, Value: fmt.Append(nil, i*10), At: time.UnixMilli(2)}})
		if err != nil || len(turn.Calls) != 2 || turn.Calls[1].ID != 3 || len(turn.Logs) != 0 {
			t.Fatal(err, turn)
		}
	}
	list[0].Rest()
	for i, s := range list {
		turn, err := s.Deliver(t.Context(), []Delivery{{Seq: 2, CallID: 3, Value: []byte(`"x"`), At: time.UnixMilli(3)}})
		if want := fmt.Sprintf(`[36,%d,"x",60]`, i*10); err != nil || !turn.Done || string(turn.Result) != want {
			t.Errorf("%v %s, want %s", err, turn.Result, want)
		}
		s.Close()
	}
	if p.room.held != 0 {
		t.Errorf("%d bytes are held after the end", p.room.held)
	}
}

// TestSession_AnotherWay: a script that does not do the same again is not gone on with.
func TestSession_AnotherWay(t *testing.T) {
	t.Parallel()
	p := reusing(t)
	s, _, err := p.Open(t.Context(), Start{Script: `await mcp.a.b({}); return 1`})
	if err != nil {
		t.Fatal(err)
	}
	s.Rest()
	s.made[0]++ // as if it had been another call
	if _, err := s.Deliver(t.Context(), []Delivery{{Seq: 1, CallID: 1, Value: []byte(`1`)}}); core.CodeOf(err) != core.CodeReplay {
		t.Errorf("it went on: %v", err)
	}
	if n := p.Children(); n != 0 {
		t.Errorf("%d children are left", n)
	}
}

// TestPool_GivenUp: a request that was given up before it began leaves nothing
// behind that counts as memory, whether its turn had been granted by then or not.
func TestPool_GivenUp(t *testing.T) {
	t.Parallel()
	p := NewPool(Options{Command: []string{os.Args[0], "pml-sandbox-test-child"}, Warm: -1})
	t.Cleanup(func() { _ = p.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 { // chance decides whether the turn or the end of the context is seen first
		if _, err := p.try(ctx, &request{Limits: p.o.Limits}); err == nil {
			t.Fatal("a request that was given up was served")
		}
	}
	p.room.mu.Lock()
	defer p.room.mu.Unlock()
	if n := len(p.room.places); n > 0 || p.room.held != 0 {
		t.Errorf("%d places hold %d bytes", n, p.room.held)
	}
}
