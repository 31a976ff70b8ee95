package notify

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
)

const (
	maxWaiting = 2000 // approvals that are followed at once
	maxQueue   = 100  // messages that wait to be sent; the oldest go first
	keepTime   = 24 * time.Hour
	// leaseTime is how long whoever has claimed a message may take to send it. It is much
	// longer than a carrier may take, also for servers whose clocks differ by some seconds.
	leaseTime = time.Minute
	// firstPause is before the second try of a carrier that fails, longestPause between two.
	firstPause   = 2 * time.Second
	longestPause = 5 * time.Minute
)

// state is the document.
type state struct {
	Waiting []waiting `json:"waiting,omitempty"`
	// Settled are approvals that do not wait any more, and of whose end nobody was told.
	Settled []settled `json:"settled,omitempty"`
	Queue   []message `json:"queue,omitempty"`
	// AskedAt and DecidedAt are when the last messages of these kinds were queued.
	AskedAt   time.Time          `json:"asked_at,omitzero"`
	DecidedAt time.Time          `json:"decided_at,omitzero"`
	Carriers  map[string]*health `json:"carriers,omitempty"`
}

// waiting is an approval that waits.
type waiting struct {
	ID        core.ID    `json:"id"`
	Since     time.Time  `json:"since"` // when it was first seen
	Expires   *time.Time `json:"expires,omitempty"`
	Announced bool       `json:"announced,omitempty"`
	Reminded  bool       `json:"reminded,omitempty"`
	Told      []string   `json:"told,omitempty"` // carriers that have taken a message about it
}

// left is how long it still waits; ok is false where it never expires.
func (w waiting) left(now time.Time) (d time.Duration, ok bool) {
	if w.Expires == nil {
		return 0, false
	}
	return w.Expires.Sub(now), true
}

type settled struct {
	ID   core.ID   `json:"id"`
	At   time.Time `json:"at"`
	Told []string  `json:"told"`
}

// message is what is to be sent: its text is made when it is.
type message struct {
	ID         core.ID    `json:"id"`
	Kind       Kind       `json:"kind"`
	At         time.Time  `json:"at"`
	Approvals  []core.ID  `json:"approvals"`
	Deliveries []delivery `json:"deliveries"`
}

// delivery is that of a message by one carrier, as long as it is not done.
type delivery struct {
	Carrier string    `json:"carrier"`
	Tries   int       `json:"tries,omitempty"`
	By      core.ID   `json:"by,omitempty"`   // the claim of whoever sends it now
	Until   time.Time `json:"until,omitzero"` // when that claim ends
}

// health is how a carrier has fared.
type health struct {
	Sent     time.Time `json:"sent,omitzero"`      // when it last took a message
	Failures int       `json:"failures,omitempty"` // in a row
	Since    time.Time `json:"since,omitzero"`     // of these
	Error    string    `json:"error,omitempty"`
	Next     time.Time `json:"next,omitzero"`  // not before
	Lost     int       `json:"lost,omitempty"` // messages that were given up since it last took one
}

func decodeState(doc []byte) (*state, error) {
	s := &state{}
	if len(doc) > 0 {
		if err := json.Unmarshal(doc, s); err != nil {
			return nil, core.Errorf(core.CodeStoreFailed, "the list of what is to be sent cannot be read: %w", err)
		}
	}
	if s.Carriers == nil {
		s.Carriers = map[string]*health{}
	}
	return s, nil
}

func (s *state) encode() ([]byte, error) {
	doc, err := json.Marshal(s)
	if err != nil {
		return nil, core.Errorf(core.CodeInternal, "cannot encode what is to be sent: %w", err)
	}
	return doc, nil
}

func (s *state) health(carrier string) *health {
	h := s.Carriers[carrier]
	if h == nil {
		h = &health{}
		s.Carriers[carrier] = h
	}
	return h
}

// job is one claimed delivery.
type job struct {
	message message
	carrier string
	claim   core.ID
}

// claim takes, for each carrier that may be tried now, the oldest message that nobody
// else sends.
func (s *state) claim(set Settings, now time.Time, newID func() core.ID) []job {
	if set.Quiet.Holds(now) {
		return nil
	}
	var jobs []job
	for _, c := range set.Carriers {
		if d, m := s.due(c.Name(), now); d != nil && d.Until.IsZero() || d != nil && !now.Before(d.Until) {
			d.Tries, d.By, d.Until = d.Tries+1, newID(), now.Add(leaseTime)
			jobs = append(jobs, job{message: *m, carrier: c.Name(), claim: d.By})
		}
	}
	return jobs
}

// due is the oldest delivery of a carrier, those left out that rest because they could not be
// put together; nil for none, or while the carrier rests.
func (s *state) due(carrier string, now time.Time) (*delivery, *message) {
	if h := s.Carriers[carrier]; h != nil && now.Before(h.Next) {
		return nil, nil
	}
	for i := range s.Queue {
		m := &s.Queue[i]
		for j := range m.Deliveries {
			if d := &m.Deliveries[j]; d.Carrier == carrier && (d.By != "" || !now.Before(d.Until)) {
				return d, m
			}
		}
	}
	return nil, nil
}

// outcome is how a delivery went.
type outcome struct {
	job
	err   error
	stale bool // nothing of it waits any more: it was not sent
	// put: it could not be put together, which says nothing of the carrier.
	put bool
	// left are those of its approvals that could not be shown, where others were sent.
	left []core.ID
}

// settle notes how a delivery went. random is from 0 to 1.
func (s *state) settle(o outcome, now time.Time, random float64) {
	h := s.health(o.carrier)
	mine, done := s.find(o.job), true
	switch {
	case o.stale:
	case o.put:
		done = false
	case o.err == nil:
		*h = health{Sent: now}
		for i := range s.Waiting {
			w := &s.Waiting[i]
			if slices.Contains(o.message.Approvals, w.ID) && !slices.Contains(o.left, w.ID) && !slices.Contains(w.Told, o.carrier) {
				w.Told = append(w.Told, o.carrier)
			}
		}
	default:
		done = h.failed(o.err, now, random)
	}
	if mine == nil {
		return // somebody else has it now, or nothing of it waits any more
	}
	again := now.Add(pauseAfter(mine.Tries))
	if done {
		if len(o.left) > 0 && o.err == nil { // the claim's id is no other message's
			s.Queue = append(s.Queue, message{
				ID: o.claim, Kind: o.message.Kind, At: o.message.At, Approvals: o.left,
				Deliveries: []delivery{{Carrier: o.carrier, Tries: mine.Tries, Until: again}},
			})
		}
		s.drop(o.message.ID, o.carrier)
		return
	}
	if mine.By, mine.Until = "", (time.Time{}); o.put {
		mine.Until = again
	}
}

// pauseAfter is how long nothing is tried again after so many tries.
func pauseAfter(tries int) time.Duration {
	if tries > 8 {
		return longestPause
	}
	return min(firstPause<<max(tries-1, 0), longestPause)
}

// failed notes a failure, and reports whether a further try makes no sense.
func (h *health) failed(err error, now time.Time, random float64) (final bool) {
	f := failureOf(err)
	if h.Failures == 0 {
		h.Since = now
	}
	h.Failures++
	h.Error = core.Visible(f.Error(), 300, false)
	if f.final {
		h.Lost++
		return true
	}
	pause := pauseAfter(h.Failures)
	// Half of it is left to chance, so that many processes do not come back at once.
	pause = pause/2 + time.Duration(random*float64(pause/2))
	h.Next = now.Add(max(pause, min(f.after, longestPause)))
	return false
}

// find is the delivery of a job, if its claim still stands.
func (s *state) find(j job) *delivery {
	for i := range s.Queue {
		for k := range s.Queue[i].Deliveries {
			if d := &s.Queue[i].Deliveries[k]; s.Queue[i].ID == j.message.ID && d.Carrier == j.carrier && d.By == j.claim {
				return d
			}
		}
	}
	return nil
}

// drop takes the delivery of a message by a carrier away, and the message after the last.
func (s *state) drop(id core.ID, carrier string) {
	for i := range s.Queue {
		if m := &s.Queue[i]; m.ID == id {
			m.Deliveries = slices.DeleteFunc(m.Deliveries, func(d delivery) bool { return d.Carrier == carrier })
		}
	}
	s.tidy()
}

func (s *state) tidy() {
	s.Queue = slices.DeleteFunc(s.Queue, func(m message) bool { return len(m.Deliveries) == 0 || len(m.Approvals) == 0 })
}
