package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
)

var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// box takes messages, or fails.
type box struct {
	name string
	mu   sync.Mutex
	got  []Note
	fail error
	hold chan struct{} // a send waits for it
}

func (b *box) Name() string { return b.name }

func (b *box) Send(ctx context.Context, n Note) error {
	if b.hold != nil {
		select {
		case <-b.hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail == nil {
		b.got = append(b.got, n)
	}
	return b.fail
}

func (b *box) take() []Note {
	b.mu.Lock()
	defer b.mu.Unlock()
	got := b.got
	b.got = nil
	return got
}

// world is a store with its clock, in which approvals wait.
type world struct {
	t    *testing.T
	mu   sync.Mutex
	now  time.Time
	ids  int
	doc  []byte
	ver  int64
	list map[core.ID]core.Approval
	set  Settings
	next time.Time
	// unshown cannot be shown.
	unshown map[core.ID]bool
}

func newWorld(t *testing.T, carriers ...Carrier) *world {
	return &world{t: t, now: noon, list: map[core.ID]core.Approval{}, set: Settings{
		Carriers: carriers, After: 3 * time.Second, Burst: 30 * time.Second, Remind: time.Minute, Decided: true,
	}}
}

func (w *world) Now() time.Time { w.mu.Lock(); defer w.mu.Unlock(); return w.now }

func (w *world) Notices(context.Context) ([]byte, int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.doc), w.ver, nil
}

func (w *world) SetNotices(_ context.Context, doc []byte, v int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if v != w.ver+1 {
		return core.Errorf(core.CodeNotWaiting, "somebody was faster")
	}
	w.doc, w.ver = slices.Clone(doc), v
	return nil
}

func (w *world) id() core.ID {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ids++
	return core.ID(fmt.Sprintf("%08x-0000-4000-8000-000000000000", w.ids))
}

func (w *world) ask(run string, risk core.Risk, ttl time.Duration) core.ID {
	id := w.id()
	a := core.Approval{
		ID: id, RunID: core.ID("run-" + run), RunName: run, Risk: risk, State: core.ApprovalOpen, CreatedAt: w.Now(), Type: core.ApproveTool,
		Tool: "linear:create_comment", Description: "create a comment", Context: []byte(`{"arguments":{"body":"hello @all"}}`),
	}
	if ttl > 0 {
		until := w.Now().Add(ttl)
		a.ExpiresAt = &until
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list[id] = a
	return id
}

func (w *world) end(id core.ID, state core.ApprovalState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.list[id]
	a.State = state
	a.DecidedBy = &core.DecidedBy{Actor: core.Actor{Who: "ada", Via: core.ViaTUI}, At: w.now}
	w.list[id] = a
}

func (w *world) open(context.Context) ([]core.Approval, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []core.Approval
	for _, a := range w.list {
		if a.StateAt(w.now) == core.ApprovalOpen {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, core.BySoonest)
	return out, nil
}

func (w *world) show(_ context.Context, id core.ID) (core.Approval, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, ok := w.list[id]
	if w.unshown[id] {
		return a, core.Errorf(core.CodeInvalidConfig, "the configuration of its workspace cannot be read")
	}
	if !ok {
		return a, core.Errorf(core.CodeNotFound, "gone")
	}
	a.State = a.StateAt(w.now)
	return a, nil
}

func (w *world) sender() *Sender {
	return NewSender(Options{
		Keeper: w, Settings: func() (Settings, error) { return w.set, nil }, Open: w.open, Show: w.show, Clock: w, NewID: w.id,
		Random: func() float64 { return 1 }, Log: slog.New(slog.DiscardHandler),
	})
}

// after lets time pass as a process does that looks when it said it would, and each 30 s.
func (w *world) after(s *Sender, d time.Duration) {
	w.t.Helper()
	end := w.Now().Add(d)
	for {
		next, err := s.Look(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		w.mu.Lock()
		w.next = next
		step := w.now.Add(lookAgain)
		if !next.IsZero() {
			step = earliest(step, next)
		}
		if least := w.now.Add(lookGap); step.Before(least) {
			step = least
		}
		if w.now.Equal(end) {
			w.mu.Unlock()
			return
		}
		w.now = earliest(step, end)
		w.mu.Unlock()
	}
}

func texts(notes []Note) string {
	var out []string
	for _, n := range notes {
		line, _, _ := strings.Cut(n.Text, "\n")
		out = append(out, string(n.Kind)+": "+line)
	}
	return strings.Join(out, "\n")
}

func want(t *testing.T, got []Note, lines ...string) {
	t.Helper()
	if text := texts(got); text != strings.Join(lines, "\n") {
		t.Errorf("sent:\n%s\nwant:\n%s", text, strings.Join(lines, "\n"))
	}
}

func TestSender_OneApproval(t *testing.T) {
	t.Parallel()
	b := &box{name: "phone"}
	w := newWorld(t, b)
	s := w.sender()
	id := w.ask("nightly", core.RiskHigh, 4*time.Minute+3*time.Second)
	w.after(s, 2*time.Second)
	want(t, b.take())
	w.after(s, 2*time.Second)
	got := b.take()
	want(t, got, `asked: 1 approval waits (high), run "nightly", expires 4:00`)
	if lines := strings.Split(got[0].Text, "\n"); lines[1] != "decide: pml approve "+id.Short() {
		t.Errorf("%q", lines)
	}
	w.after(s, 3*time.Minute)
	want(t, b.take(), `reminder: reminder: 1 approval waits (high), run "nightly", expires 1:00`)
	w.end(id, core.ApprovalApproved)
	w.after(s, 5*time.Second)
	got = b.take()
	want(t, got, `decided: 1 approval does not wait any more: approved, run "nightly"`)
	if strings.Contains(got[0].Text, "ada") {
		t.Errorf("without details: %q", got[0].Text)
	}
	w.after(s, time.Hour)
	want(t, b.take())
	if !w.next.IsZero() || len(w.doc) > 300 {
		t.Errorf("something is left to do at %v: %s", w.next, w.doc)
	}
}

// TestSender_DecidedAtOnce: whoever sits at the terminal gets no message, nor what became of it.
func TestSender_DecidedAtOnce(t *testing.T) {
	t.Parallel()
	b := &box{name: "phone"}
	w := newWorld(t, b)
	s := w.sender()
	id := w.ask("r", core.RiskLow, 5*time.Minute)
	w.after(s, 2*time.Second)
	w.end(id, core.ApprovalDenied)
	w.after(s, time.Minute)
	want(t, b.take())
}

func TestSender_Expires(t *testing.T) {
	t.Parallel()
	b := &box{name: "phone"}
	w := newWorld(t, b)
	w.set.Remind = 0
	s := w.sender()
	w.ask("r", core.RiskLow, 2*time.Minute)
	w.after(s, 5*time.Minute)
	want(t, b.take(), `asked: 1 approval waits (low), run "r", expires 1:57`, `decided: 1 approval does not wait any more: expired, run "r"`)
}

func TestSender_Burst(t *testing.T) {
	t.Parallel()
	b := &box{name: "phone"}
	w := newWorld(t, b)
	s := w.sender()
	var ids []core.ID
	for i := range 50 {
		risk := core.RiskMedium
		if i%20 == 0 {
			risk = core.RiskHigh
		}
		ids = append(ids, w.ask(fmt.Sprintf("run %d", i%7), risk, 5*time.Minute))
		w.after(s, 100*time.Millisecond)
	}
	w.after(s, 3*time.Second)
	got := b.take()
	want(t, got, `asked: 50 approvals wait (3 high), runs "run 0", "run 1", "run 2", "run 3", "run 4" and 2 more, the first expires 4:52`)
	if n := got[0]; n.Count != 50 || len(n.Approvals) != maxItems || n.Risk != core.RiskHigh || !strings.Contains(n.Text, "decide: pml approve\n") {
		t.Errorf("%d of %d, %s: %s", len(n.Approvals), n.Count, n.Risk, n.Text)
	}
	w.ask("late", core.RiskLow, 5*time.Minute) // within the burst's time: it waits for its end
	w.after(s, 10*time.Second)
	want(t, b.take())
	w.after(s, 20*time.Second)
	if got := b.take(); len(got) != 1 || got[0].Count != 1 {
		t.Errorf("%s", texts(got))
	}
	for i, id := range ids {
		w.end(id, []core.ApprovalState{core.ApprovalApproved, core.ApprovalDenied}[i%2])
	}
	w.after(s, 10*time.Second)
	want(t, b.take(), `decided: 50 approvals do not wait any more: 25 approved, 25 denied, runs "run 0", "run 1", "run 2", "run 3", "run 4" and 2 more`)
}

// TestSender_ReminderOnce: those that expire within one burst are one reminder, and one that
// is extended is reminded of again.
func TestSender_ReminderOnce(t *testing.T) {
	t.Parallel()
	b := &box{name: "phone"}
	w := newWorld(t, b)
	s := w.sender()
	first := w.ask("a", core.RiskLow, 5*time.Minute)
	w.after(s, 20*time.Second)
	w.ask("b", core.RiskLow, 5*time.Minute)
	w.after(s, 3*time.Minute)
	b.take()
	w.after(s, 90*time.Second)
	want(t, b.take(), `reminder: reminder: 2 approvals wait (low), runs "a", "b", the first expires 1:00`)
	w.mu.Lock()
	a := w.list[first]
	until := w.now.Add(10 * time.Minute)
	a.ExpiresAt = &until
	w.list[first] = a
	w.mu.Unlock()
	w.after(s, 9*time.Minute+time.Second)
	want(t, b.take(), `decided: 1 approval does not wait any more: expired, run "b"`, `reminder: reminder: 1 approval waits (low), run "a", expires 1:00`)
}

// TestSender_CarrierDown: a carrier is down for an hour. The other one is not held up, what
// has expired meanwhile is not told of by the one that comes back, what still waits is.
func TestSender_CarrierDown(t *testing.T) {
	t.Parallel()
	b, down := &box{name: "phone"}, &box{name: "team", fail: &failure{reason: "answered 503"}}
	w := newWorld(t, b, down)
	s := w.sender()
	w.ask("short", core.RiskLow, 5*time.Minute)
	w.ask("long", core.RiskHigh, 3*time.Hour)
	w.after(s, time.Hour)
	want(t, b.take(), `asked: 2 approvals wait (1 high), runs "short", "long", the first expires 4:57`,
		`reminder: reminder: 1 approval waits (low), run "short", expires 1:00`, `decided: 1 approval does not wait any more: expired, run "short"`)
	r, err := ReportOf(t.Context(), w)
	if err != nil || r.Carriers["team"].Failed < 15 || r.Carriers["team"].Failed > 25 || r.Carriers["team"].Error != "answered 503" || !r.Carriers["team"].Since.Equal(noon.Add(3*time.Second)) {
		t.Fatalf("%v %+v", err, r)
	}
	down.mu.Lock()
	down.fail = nil
	down.mu.Unlock()
	w.after(s, longestPause+time.Second)
	got := down.take()
	if len(got) != 1 || got[0].Count != 1 || !strings.HasPrefix(got[0].Text, `1 approval waits (high), run "long", expires 1:5`) {
		t.Errorf("%s", texts(got))
	}
	if r, _ := ReportOf(t.Context(), w); r.Carriers["team"].Failed != 0 || r.Queued != 0 {
		t.Errorf("%+v", r)
	}
}

// What cannot be shown holds up nothing else, whether it is in a message of its own or not,
// and is told once it can be.
func TestSender_NotShown(t *testing.T) {
	t.Parallel()
	b := &box{name: "phone"}
	w := newWorld(t, b)
	s := w.sender()
	w.unshown = map[core.ID]bool{w.ask("broken", core.RiskLow, 0): true}
	w.after(s, time.Minute)
	want(t, b.take())
	w.unshown[w.ask("broken too", core.RiskLow, 0)] = true
	w.ask("fine", core.RiskLow, 0)
	w.after(s, time.Minute)
	want(t, b.take(), `asked: 1 approval waits (low), run "fine"`)
	w.mu.Lock()
	w.unshown = nil
	w.mu.Unlock()
	w.after(s, longestPause)
	got := b.take()
	slices.SortFunc(got, func(a, b Note) int { return strings.Compare(a.Text, b.Text) })
	want(t, got, `asked: 1 approval waits (low), run "broken too"`, `asked: 1 approval waits (low), run "broken"`)
	if r, err := ReportOf(t.Context(), w); err != nil || r.Queued != 0 || r.Carriers["phone"].Lost != 0 {
		t.Errorf("%v %+v", err, r)
	}
}

func TestSender_FinalFailure(t *testing.T) {
	t.Parallel()
	b := &box{name: "phone", fail: &failure{reason: "answered 401", final: true}}
	w := newWorld(t, b)
	s := w.sender()
	w.ask("a", core.RiskLow, 0)
	w.after(s, time.Hour)
	r, err := ReportOf(t.Context(), w)
	if c := r.Carriers["phone"]; err != nil || c.Failed != 1 || c.Lost != 1 || r.Queued != 0 {
		t.Fatalf("%v %+v", err, r)
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	h, now := &health{}, noon
	var got []time.Duration
	for range 10 {
		h.failed(errors.New("x"), now, 1)
		got = append(got, h.Next.Sub(now))
	}
	if want := []float64{2, 4, 8, 16, 32, 64, 128, 256, 300, 300}; !slices.EqualFunc(got, want, func(a time.Duration, b float64) bool { return a.Seconds() == b }) {
		t.Error(got)
	}
	h = &health{}
	h.failed(&failure{reason: "x", after: time.Minute}, now, 0)
	if h.Next.Sub(now) != time.Minute {
		t.Errorf("the carrier's own pause: %v", h.Next.Sub(now))
	}
	h = &health{}
	if h.failed(errors.New("x"), now, 0); h.Next.Sub(now) != time.Second {
		t.Errorf("with the least chance: %v", h.Next.Sub(now))
	}
}

// TestSender_Dies: a process claims a message, sends it perhaps, and dies. Another one sends
// it after the claim has ended, under the same id.
func TestSender_Dies(t *testing.T) {
	t.Parallel()
	b := &box{name: "phone"}
	w := newWorld(t, b)
	s := w.sender()
	w.ask("a", core.RiskLow, time.Hour)
	w.after(s, 2*time.Second)
	st, _ := decodeState(w.doc)
	w.mu.Lock()
	w.now = w.now.Add(2 * time.Second)
	w.mu.Unlock()
	open, _ := w.open(t.Context())
	st.plan(open, w.set, w.Now(), w.id)
	jobs := st.claim(w.set, w.Now(), w.id)
	doc, _ := st.encode()
	if err := w.SetNotices(t.Context(), doc, w.ver+1); err != nil || len(jobs) != 1 {
		t.Fatal(err, len(jobs))
	}
	other := w.sender()
	w.after(other, leaseTime-2*time.Second)
	want(t, b.take())
	w.after(other, 3*time.Second)
	got := b.take()
	if len(got) != 1 || got[0].ID != string(jobs[0].message.ID) {
		t.Errorf("%+v, claimed %s", got, jobs[0].message.ID)
	}
	// The first one was only slow: what it notes now changes nothing.
	if err := s.change(t.Context(), func(st *state) { st.settle(outcome{job: jobs[0], err: errors.New("late")}, w.Now(), 1) }); err != nil {
		t.Fatal(err)
	}
	w.after(other, time.Minute)
	want(t, b.take())
}

// TestSender_Two: of any number of processes that look at once one sends each message.
func TestSender_Two(t *testing.T) {
	t.Parallel()
	b := &box{name: "phone"}
	w := newWorld(t, b)
	w.set.Burst = 0
	for round := range 20 {
		w.ask(fmt.Sprint("r", round), core.RiskLow, time.Hour)
		w.after(w.sender(), time.Second)
		w.mu.Lock()
		w.now = w.now.Add(4 * time.Second)
		w.mu.Unlock()
		var wg sync.WaitGroup
		for range 8 {
			s := w.sender()
			wg.Go(func() {
				if _, err := s.Look(t.Context()); err != nil && core.CodeOf(err) != core.CodeNotWaiting {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if got := b.take(); len(got) != 1 {
			t.Fatalf("round %d: %d messages", round, len(got))
		}
	}
}

// TestSender_Stopped: a process that is stopped in the middle of a send leaves the message
// to another one at once.
func TestSender_Stopped(t *testing.T) {
	t.Parallel()
	b := &box{name: "phone", hold: make(chan struct{})}
	w := newWorld(t, b)
	w.ask("a", core.RiskLow, time.Hour)
	w.after(w.sender(), 2*time.Second)
	w.mu.Lock()
	w.now = w.now.Add(2 * time.Second)
	w.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _ = w.sender().Look(ctx)
	b.hold = nil
	w.after(w.sender(), 3*time.Second)
	if got := b.take(); len(got) != 1 {
		t.Errorf("%d messages", len(got))
	}
}

func TestSender_Bounds(t *testing.T) {
	t.Parallel()
	b := &box{name: "phone", fail: errors.New("down")}
	w := newWorld(t, b)
	w.set.Burst, w.set.After, w.set.Decided = time.Second, time.Second, false
	s := w.sender()
	for range maxQueue + 30 {
		w.ask("a", core.RiskLow, 0)
		w.after(s, 3*time.Second)
	}
	st, err := decodeState(w.doc)
	if err != nil || len(st.Queue) != maxQueue || st.Carriers["phone"].Lost != 30 {
		t.Errorf("%v: %d queued, %d lost", err, len(st.Queue), st.Carriers["phone"].Lost)
	}
	for range maxWaiting {
		w.ask("many", core.RiskLow, 0)
	}
	w.after(s, 2*time.Second)
	if st, _ = decodeState(w.doc); len(st.Waiting) != maxWaiting || len(w.doc) > 2<<20 {
		t.Errorf("%d followed in %d bytes", len(st.Waiting), len(w.doc))
	}
	w.now = w.now.Add(25 * time.Hour)
	w.after(s, time.Second)
	if st, _ = decodeState(w.doc); len(st.Queue) != 0 {
		t.Errorf("%d are kept after a day", len(st.Queue))
	}
}

func TestSender_Damaged(t *testing.T) {
	t.Parallel()
	b := &box{name: "phone"}
	w := newWorld(t, b)
	w.doc, w.ver = []byte(`{"waiting": 7`), 3
	w.ask("a", core.RiskLow, time.Hour)
	w.after(w.sender(), 4*time.Second)
	if got := b.take(); len(got) != 1 {
		t.Errorf("%d messages", len(got))
	}
}

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Skip(err)
	}
	return z
}

func TestQuiet(t *testing.T) {
	t.Parallel()
	berlin := zone(t, "Europe/Berlin")
	night := Quiet{From: 22 * 60, To: 7*60 + 30, Zone: berlin}
	gap := Quiet{From: 60, To: 2*60 + 30, Zone: berlin} // ends at a time that the spring leaves out
	for _, c := range []struct {
		q    Quiet
		at   string
		want bool
	}{
		{night, "2026-11-26T21:59:59+01:00", false},
		{night, "2026-11-26T22:00:00+01:00", true},
		{night, "2026-11-26T23:30:00Z", true}, // 00:30 in Berlin
		{night, "2026-11-27T07:29:59+01:00", true},
		{night, "2026-11-27T07:30:00+01:00", false},
		{night, "2026-07-01T20:00:00Z", true},  // summer: 22:00
		{night, "2026-07-01T19:59:00Z", false}, // 21:59
		{night, "2026-03-29T05:29:00Z", true},  // the day the clock goes forward: 07:29
		{night, "2026-03-29T05:30:00Z", false},
		{night, "2026-10-25T06:29:00Z", true}, // and back: 07:29
		{night, "2026-10-25T06:30:00Z", false},
		{gap, "2026-03-29T00:59:00Z", true},  // 01:59
		{gap, "2026-03-29T01:00:00Z", false}, // 03:00
		{gap, "2026-10-25T00:15:00Z", true},  // 02:15 in summer time
		{gap, "2026-10-25T00:45:00Z", false}, // 02:45
		{gap, "2026-10-25T01:15:00Z", true},  // 02:15 once more
		{Quiet{From: 60, To: 60}, "2026-10-25T01:00:00Z", false},
		{Quiet{From: 9 * 60, To: 17 * 60}, "2026-10-25T12:00:00Z", true},
	} {
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil || c.q.Holds(at) != c.want {
			t.Errorf("%s in %v: %v, want %v (%v)", c.at, c.q, !c.want, c.want, err)
		}
	}
}

// TestSender_Quiet: nothing is sent at night, also no second try; in the morning one message
// tells of what still waits.
func TestSender_Quiet(t *testing.T) {
	t.Parallel()
	b := &box{name: "phone"}
	w := newWorld(t, b)
	w.set.Quiet = Quiet{From: 22 * 60, To: 7 * 60, Zone: zone(t, "Europe/Berlin")}
	w.now = time.Date(2026, 3, 28, 20, 59, 50, 0, time.UTC) // 21:59:50, the night in which the clock goes forward
	s := w.sender()
	b.fail = errors.New("down")
	w.ask("evening", core.RiskLow, 24*time.Hour)
	w.after(s, 20*time.Second)
	b.fail = nil
	w.ask("gone", core.RiskLow, 5*time.Minute)
	w.ask("night", core.RiskHigh, 24*time.Hour)
	w.after(s, 8*time.Hour-15*time.Second)
	want(t, b.take())
	w.after(s, 2*time.Minute)
	if at := w.Now().In(w.set.Quiet.Zone); at.Hour() != 7 {
		t.Fatalf("it is %v", at)
	}
	want(t, b.take(), `asked: 1 approval waits (low), run "evening", expires 15:59:25`, `asked: 1 approval waits (high), run "night", expires 15:59:44`)
}

// TestRun: a process looks when the store changes, and leaves when nothing is left to do.
func TestRun(t *testing.T) {
	t.Parallel()
	b := &box{name: "phone"}
	w := newWorld(t, b)
	w.set.After, w.set.Decided = time.Millisecond, false
	o := w.sender().o
	o.Idle, o.Clock = 1500*time.Millisecond, realClock{}
	changes := make(chan struct{}, 1)
	w.mu.Lock()
	w.now = time.Now()
	w.mu.Unlock()
	w.ask("a", core.RiskLow, 0)
	changes <- struct{}{}
	if err := NewSender(o).Run(t.Context(), changes); err != nil {
		t.Fatal(err)
	}
	if got := b.take(); len(got) != 1 {
		t.Errorf("%d messages", len(got))
	}
}

// TestRun_Fails: the process that pml starts by itself does not stay for ever with an error
// that lasts; one that a person has started does.
func TestRun_Fails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, &box{name: "phone"})
	o := w.sender().o
	failed := errors.New("the store is away")
	looks := 0
	o.Open = func(context.Context) ([]core.Approval, error) {
		looks++
		return nil, failed
	}
	o.Idle, o.Clock = time.Minute, &strides{now: noon}
	changes := make(chan struct{})
	go func() {
		for {
			select {
			case changes <- struct{}{}: // so that nothing waits for the real time to pass
			case <-t.Context().Done():
				return
			}
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	if err := NewSender(o).Run(ctx, changes); !errors.Is(err, failed) || looks != 2 {
		t.Errorf("%v after %d looks", err, looks)
	}
}

// strides is a clock on which five minutes pass between two looks at it.
type strides struct{ now time.Time }

func (s *strides) Now() time.Time {
	s.now = s.now.Add(5 * time.Minute)
	return s.now
}

type realClock struct{}

func (realClock) Now() time.Time { return time.Now() }

func TestSender_Details(t *testing.T) {
	t.Parallel()
	b := &box{name: "phone"}
	w := newWorld(t, b)
	s := w.sender()
	id := w.ask("a", core.RiskHigh, 0)
	w.after(s, 4*time.Second)
	if n := b.take()[0]; strings.Contains(n.Text, "linear") || n.Approvals[0].Tool != "" || n.Approvals[0].Arguments != "" || n.Approvals[0].Workspace != "" {
		t.Errorf("%+v", n)
	}
	w.set.Details = true
	w.ask("b", core.RiskHigh, 0)
	w.after(s, time.Minute)
	if n := b.take()[0]; !strings.Contains(n.Text, `high linear:create_comment {"body":"hello ＠all"}`) || n.Approvals[0].Description != "create a comment" {
		t.Errorf("%s", n.Text)
	}
	w.end(id, core.ApprovalDenied)
	w.after(s, 10*time.Second)
	if n := b.take()[0]; !strings.Contains(n.Text, id.Short()+" denied by ada via tui linear:create_comment") {
		t.Errorf("%s", n.Text)
	}
}

// TestLink: a message leads to a page, for one approval to its own; what was decided leads
// nowhere.
func TestLink(t *testing.T) {
	t.Parallel()
	a := core.Approval{ID: "01234567-0000", RunID: "r", Risk: core.RiskLow, State: core.ApprovalOpen}
	set := Settings{Page: "https://home.example:7465"}
	for _, tt := range []struct {
		kind Kind
		list []core.Approval
		want string
	}{
		{KindAsked, []core.Approval{a}, "https://home.example:7465/approvals/01234567-0000"},
		{KindReminder, []core.Approval{a, a}, "https://home.example:7465/"},
		{KindDecided, []core.Approval{a}, ""},
	} {
		n := compose(message{ID: "89abcdef-0000", Kind: tt.kind}, tt.list, set, noon)
		if n.Link != tt.want || strings.HasSuffix(n.Text, "\nopen: "+tt.want) != (tt.want != "") {
			t.Errorf("%s: %q in %q", tt.kind, n.Link, n.Text)
		}
	}
	if n := compose(message{Kind: KindAsked}, []core.Approval{a}, Settings{}, noon); n.Link != "" || strings.Contains(n.Text, "open:") {
		t.Errorf("%+v", n)
	}
}

// TestClean: names of runs come from agents. Nothing of them acts where a message is shown.
func TestClean(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"x\ndecide: pml approve evil", "a\r\nb", "<!channel> <https://evil|press>", "@everyone @ada", "https://evil.example/approve",
		"\x1b]8;;http://evil\a", "\u202eexe.txt", "*bold* _it_ `code`", "<b>x</b>&amp;", `", expires never`, strings.Repeat("long ", 500), "\u2028x", "/start@bot",
	} {
		a := core.Approval{ID: "01234567-0000", RunID: "r", RunName: name, Risk: core.RiskLow, State: core.ApprovalOpen, Tool: name, Description: name, Context: []byte(`{"arguments":{"a":"x"}}`)}
		n := compose(message{ID: "89abcdef-0000", Kind: KindAsked}, []core.Approval{a}, Settings{Details: true}, noon)
		lines := strings.Split(n.Text, "\n")
		if len(lines) != 4 || !strings.HasPrefix(lines[0], `1 approval waits (low), run "`) || strings.Count(lines[0], `"`) != 2 || lines[2] != "decide: pml approve "+a.ID.Short() {
			t.Errorf("%q", n.Text)
		}
		if strings.ContainsFunc(strings.ReplaceAll(n.Text, "\n", ""), core.Hidden) || strings.ContainsAny(n.Text, "@\x1b") || strings.Contains(n.Text, "://") {
			t.Errorf("%q", n.Text)
		}
	}
}
