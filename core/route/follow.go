package route

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// lookEvery is how often who follows looks for a server that is not there, and
// how long one that is back must stay until that is said.
const lookEvery = 2 * time.Second

// follow passes on what happens in both halves, as it arrives. away says that
// the server was missed already.
func (b *Backend) follow(ctx context.Context, at *reached, away bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	here := read(ctx, b.o.Local, core.SideClient, at.ours, true)
	last := at.theirs
	there := reader(ctx, func(pass func(core.Event) error) error {
		return b.attend(ctx, &outage{say: b.o.Warn, away: away}, last, sided(core.SideServer, pass))
	})
	for {
		var m marked
		var ok bool
		select {
		case m, ok = <-here.events:
			if !ok {
				return <-here.end
			}
		case m, ok = <-there.events:
			if !ok {
				return <-there.end
			}
		}
		if err := at.take(m.event); err != nil {
			return err
		}
		m.taken <- nil
	}
}

// attend passes on the events of the server after a number for as long as the
// context lives: of one that was started later, too, and of one that was away,
// however long.
func (b *Backend) attend(ctx context.Context, out *outage, last int64, pass func(core.Event) error) error {
	for {
		r, err := b.server(ctx, false)
		if err == nil && r != nil {
			back := time.AfterFunc(lookEvery, out.over())
			err = r.Events(ctx, "", api.Since{Server: last}, true, func(e core.Event) error {
				out.over()()
				if err := pass(e); err != nil {
					return err
				}
				last = e.Seq
				return nil
			})
			back.Stop()
			if err == nil {
				err = errors.New("it closed its events")
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if b.o.Link != nil {
			b.o.Link(err)
		}
		if err != nil {
			out.begin(err)
		}
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// outage says once that the server is away, and once that it is back.
type outage struct {
	say func(string) // may be nil

	mu   sync.Mutex
	away bool
	n    int // outages so far: what was to end an earlier one does not end this one
}

// begin says that the server is away.
func (o *outage) begin(why error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.n++
	if !o.away {
		o.tell("the server is away, its events come when it is back: " + core.AsError(why).Message)
	}
	o.away = true
}

// over says that the server is back, unless it is away again by then.
func (o *outage) over() func() {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.n
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.away && n == o.n {
			o.away = false
			o.tell("the server is back")
		}
	}
}

func (o *outage) tell(text string) {
	if o.say != nil {
		o.say(text)
	}
}
