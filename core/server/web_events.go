package server

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// events tells the script of a page that something has happened, from now on: the events
// of a key's runs, or of both halves that a device sees, a word for each.
func (b *web) events(w http.ResponseWriter, r *http.Request, v visitor) {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		b.message(w, r, http.StatusForbidden, "This is refused", "another page has sent this")
		return
	}
	if len(v.halves) > 1 {
		b.eventsOfAll(w, r, v)
		return
	}
	if err := b.s.hub.wait(r.Context()); err != nil {
		b.failed(w, r, err)
		return
	}
	b.s.stream(w, r, v.halves[0].Backend, streamQuery{since: b.s.hub.newest(), resume: true})
}

func (b *web) eventsOfAll(w http.ResponseWriter, r *http.Request, v visitor) {
	place := "device " + v.session.Device
	if !b.s.readers.enter(place) {
		b.message(w, r, http.StatusTooManyRequests, "Too many pages", "close one of those that are open")
		return
	}
	defer b.s.readers.leave(place)
	ctx, cancel := context.WithCancel(r.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	news := make(chan struct{}, 1)
	for _, half := range v.halves {
		snap, err := half.Snapshot(ctx)
		if err != nil {
			b.failed(w, r, err)
			return
		}
		wg.Go(func() {
			defer core.Recover(b.s.log, "a page was told of events", nil)
			defer cancel() // the page connects again
			_ = half.Events(ctx, "", api.Since{Any: snap.Seq}, true, func(core.Event) error {
				select {
				case news <- struct{}{}:
				default: // it is about to look
				}
				return nil
			})
		})
	}
	streamHeader(w)
	b.tell(ctx, w, news)
}

// tell sends a word for what has happened, as long as the page may be told.
func (b *web) tell(ctx context.Context, w http.ResponseWriter, news <-chan struct{}) {
	heart := time.NewTicker(b.s.o.Limits.Heartbeat)
	defer heart.Stop()
	conn := http.NewResponseController(w)
	for text := ": begun\n\n"; ; {
		if _, err := w.Write([]byte(text)); err != nil || conn.Flush() != nil {
			return
		}
		select {
		case <-news:
			text = "data: news\n\n"
		case <-heart.C:
			text = ": heartbeat\n\n"
		case <-ctx.Done():
			return
		case <-b.s.stopping(ctx):
			return
		case <-b.s.ctx.Done():
			return
		}
		if !stillMay(ctx) {
			return
		}
	}
}
