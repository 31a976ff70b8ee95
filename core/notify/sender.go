package notify

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
)

// Options are what a Sender is made of. All but Idle are needed.
type Options struct {
	Keeper Keeper
	// Settings are read before each look.
	Settings func() (Settings, error)
	// Open are all approvals of the store that wait; what they hold is not shown to anybody.
	Open func(ctx context.Context) ([]core.Approval, error)
	// Show is an approval as it is now, without keys. core.CodeNotFound: it is gone.
	Show  func(ctx context.Context, id core.ID) (core.Approval, error)
	Clock core.Clock
	NewID func() core.ID
	// Random is from 0 to 1.
	Random func() float64
	Log    *slog.Logger
	// Idle is how long Run goes on with nothing to do and nothing to wait for; 0: for ever. While
	// each look fails Run goes on for ten times Idle.
	Idle time.Duration
}

// Sender sends for one store.
type Sender struct{ o Options }

// NewSender returns a Sender; it does nothing yet.
func NewSender(o Options) *Sender { return &Sender{o} }

const (
	lookGap   = time.Second      // between two looks at least
	lookAgain = 30 * time.Second // at most, for what no change was said of
	faultGap  = 5 * time.Second  // after a look that failed
	faultEnd  = 10               // times Idle that looks may fail before Run gives up
	casTries  = 20               // at changes that others make at the same time
)

// Run sends until the context ends or nothing is left to do for a while (Idle). changes
// receives after changes of the store. With Idle it returns the error of a look when all looks
// have failed for much longer than that: whoever has something to tell next starts anew.
func (s *Sender) Run(ctx context.Context, changes <-chan struct{}) error {
	var idle, failing time.Duration
	var said string
	for {
		next, err := s.Look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		wait := lookAgain
		switch now := s.o.Clock.Now(); {
		case err != nil:
			if text := core.AsError(err).Error(); text != said {
				s.o.Log.Warn("notifications are not sent now; trying again", "error", core.AsError(err))
				said = text
			}
			wait = faultGap
		case !next.IsZero():
			said, idle = "", 0
			wait = max(lookGap, min(wait, next.Sub(now)))
		default:
			said = ""
			if s.o.Idle > 0 {
				wait = min(wait, s.o.Idle)
			}
		}
		began := s.o.Clock.Now()
		if !rest(ctx, changes, wait) {
			return nil
		}
		rested := s.o.Clock.Now().Sub(began)
		if err == nil {
			failing = 0
		} else if failing += rested; s.o.Idle > 0 && failing >= faultEnd*s.o.Idle {
			return err
		}
		if next.IsZero() && err == nil && s.o.Idle > 0 {
			if idle += rested; idle >= s.o.Idle {
				return nil
			}
		}
	}
}

// rest waits some time, or for a change and what comes with it.
func rest(ctx context.Context, changes <-chan struct{}, d time.Duration) bool {
	least := time.NewTimer(lookGap)
	defer least.Stop()
	most := time.NewTimer(d)
	defer most.Stop()
	select {
	case <-most.C:
	case _, ok := <-changes:
		if !ok {
			<-ctx.Done()
			return false
		}
	case <-ctx.Done():
		return false
	}
	select {
	case <-least.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Look looks once at what waits, sends what is due, and returns when there may be something
// to do again; zero for never.
func (s *Sender) Look(ctx context.Context) (time.Time, error) {
	set, err := s.o.Settings()
	if err != nil || len(set.Carriers) == 0 {
		return time.Time{}, err
	}
	open, err := s.o.Open(ctx)
	if err != nil {
		return time.Time{}, err
	}
	var jobs []job
	var next time.Time
	if err := s.change(ctx, func(st *state) {
		now := s.o.Clock.Now().UTC()
		st.plan(open, set, now, s.o.NewID)
		jobs = st.claim(set, now, s.o.NewID)
		next = st.next(set, now)
	}); err != nil || len(jobs) == 0 {
		return next, err
	}
	done := s.send(ctx, set, jobs)
	// What was sent is noted even when this process is about to end.
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendTime)
	defer cancel()
	err = s.change(late, func(st *state) {
		now := s.o.Clock.Now().UTC()
		for _, o := range done {
			st.settle(o, now, s.o.Random())
		}
		next = st.next(set, now)
	})
	return next, err
}

// change changes the document by compare-and-set; f may be called more than once.
func (s *Sender) change(ctx context.Context, f func(*state)) error {
	var err error
	for range casTries {
		var doc, fresh []byte
		var version int64
		if doc, version, err = s.o.Keeper.Notices(ctx); err != nil {
			return err
		}
		st, bad := decodeState(doc)
		if bad != nil { // nothing that cannot be learnt again
			s.o.Log.Warn("beginning anew with what is to be sent", "error", core.AsError(bad))
			st, _ = decodeState(nil)
		}
		f(st)
		if fresh, err = st.encode(); err != nil || bytes.Equal(fresh, doc) {
			return err
		}
		if err = s.o.Keeper.SetNotices(ctx, fresh, version+1); core.CodeOf(err) != core.CodeNotWaiting {
			return err
		}
	}
	return err
}

// send sends what was claimed, by all carriers at once.
func (s *Sender) send(ctx context.Context, set Settings, jobs []job) []outcome {
	out := make([]outcome, len(jobs))
	var wg sync.WaitGroup
	for i, j := range jobs {
		wg.Go(func() {
			out[i] = outcome{job: j, put: true}
			defer core.Recover(s.o.Log, "a notification was sent", nil, "carrier", j.carrier)
			out[i] = s.sendOne(ctx, set, j)
		})
	}
	wg.Wait()
	return out
}

func (s *Sender) sendOne(ctx context.Context, set Settings, j job) outcome {
	list, left := s.shown(ctx, j)
	if len(list) == 0 {
		return outcome{job: j, stale: len(left) == 0, put: len(left) > 0}
	}
	note := compose(j.message, list, set, s.o.Clock.Now())
	err := set.carrier(j.carrier).Send(ctx, note)
	switch {
	case err != nil && ctx.Err() != nil: // this process ends: another one tries
		return outcome{job: j, put: true}
	case err != nil:
		s.o.Log.Warn("a notification was not taken", "carrier", j.carrier, "message", note.ID, "error", err.Error(), "final", failureOf(err).final)
	default:
		s.o.Log.Info("sent a notification", "carrier", j.carrier, "message", note.ID, "kind", string(note.Kind), "approvals", note.Count)
	}
	return outcome{job: j, err: err, left: left}
}

// shown are the approvals of a message as they are now: of one that says that they wait,
// those that still do. left are those that cannot be shown now: they hold up none of the others.
func (s *Sender) shown(ctx context.Context, j job) (list []core.Approval, left []core.ID) {
	for _, id := range j.message.Approvals {
		a, err := s.o.Show(ctx, id)
		switch {
		case core.CodeOf(err) == core.CodeNotFound:
		case err != nil:
			s.o.Log.Warn("an approval cannot be shown; telling of it later", "carrier", j.carrier, "approval", id, "error", core.AsError(err))
			left = append(left, id)
		case j.message.Kind == KindDecided || a.State == core.ApprovalOpen:
			list = append(list, a)
		}
	}
	return list, left
}

// Report is how the carriers have fared, as the document says it.
type Report struct {
	Carriers map[string]CarrierReport
	Queued   int // messages that wait to be sent
}

// CarrierReport is how a carrier has fared.
type CarrierReport struct {
	Sent   time.Time // when it last took a message; zero: never
	Failed int       // tries in a row that failed
	Since  time.Time // of these
	Error  string    // of the last of them
	Lost   int       // messages given up since it last took one
}

// ReportOf reads how the carriers have fared.
func ReportOf(ctx context.Context, k Keeper) (Report, error) {
	doc, _, err := k.Notices(ctx)
	if err != nil {
		return Report{}, err
	}
	st, err := decodeState(doc)
	if err != nil {
		return Report{}, err
	}
	r := Report{Carriers: map[string]CarrierReport{}, Queued: len(st.Queue)}
	for name, h := range st.Carriers {
		r.Carriers[name] = CarrierReport{Sent: h.Sent, Failed: h.Failures, Since: h.Since, Error: h.Error, Lost: h.Lost}
	}
	return r, nil
}
