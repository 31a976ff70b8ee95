package upstream

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A call ends after a silence, however long it has worked before, and in any case
// when all of it takes too long. The time of its client does not count.
func TestSilence(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		limit, total time.Duration
		call         func(ctx context.Context, s *silence)
		ends         time.Duration
		why          error
	}{
		"nothing is heard": {time.Minute, 0, func(context.Context, *silence) {}, time.Minute, errSilent},
		"progress": {time.Minute, 0, func(_ context.Context, s *silence) {
			for range 10 {
				time.Sleep(59 * time.Second)
				s.sign()
			}
		}, 10*59*time.Second + time.Minute, errSilent},
		"progress without end": {time.Minute, 5 * time.Minute, func(ctx context.Context, s *silence) {
			for ctx.Err() == nil {
				time.Sleep(time.Second)
				s.sign()
			}
		}, 5 * time.Minute, errTotal},
		"its client is asked": {time.Minute, 0, func(_ context.Context, s *silence) {
			done, other := s.asks(), s.asks()
			time.Sleep(answerWait / 3)
			done()
			time.Sleep(answerWait / 3)
			other()
			other()
		}, 2*(answerWait/3) + time.Minute, errSilent},
		"its client never answers": {time.Minute, 0, func(_ context.Context, s *silence) { s.asks() }, answerWait + 45*time.Second, errSilent},
		"no limit":                 {-1, time.Hour, func(_ context.Context, s *silence) { s.sign() }, time.Hour, errTotal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began, heard := time.Now(), time.Now()
				ctx, s, stop := bounded(t.Context(), tt.limit, tt.total, func() {
					// Who else waits for signs, as long, must not give up.
					if tt.limit > 0 && time.Since(heard) >= tt.limit {
						t.Errorf("no sign for %s", time.Since(heard))
					}
					heard = time.Now()
				})
				defer stop()
				go tt.call(ctx, s)
				<-ctx.Done()
				defer synctest.Wait()
				defer time.Sleep(24 * time.Hour) // what else was called ends
				if why, took := context.Cause(ctx), time.Since(began); !errors.Is(why, tt.why) || took != tt.ends {
					t.Errorf("ended after %s: %v", took, why)
				}
			})
		})
	}
}
