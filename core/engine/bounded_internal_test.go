package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/casys-ai/pml/core"
)

// A call ends by its silence, and what it tells extends that; or by its time in
// all. A task's own limit bounds all of it, and 0 is no limit.
func TestBounded(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		limits Limits
		spec   *core.TaskSpec
		signs  int // one a minute
		ends   time.Duration
		why    string
	}{
		"silent":       {Limits{CallTimeout: 61 * time.Second}, nil, 0, 61 * time.Second, "did not answer within 1m1s, nor tell of progress (limits.call_timeout)"},
		"progress":     {Limits{CallTimeout: 61 * time.Second}, nil, 10, 10*time.Minute + 61*time.Second, "did not answer within 1m1s, nor tell of progress (limits.call_timeout)"},
		"in all":       {Limits{CallTimeout: 61 * time.Second, CallTotal: 5 * time.Minute}, nil, 10, 5 * time.Minute, "took longer than 5m0s in all (limits.call_total)"},
		"none":         {Limits{CallTotal: time.Hour}, nil, 0, time.Hour, "took longer than 1h0m0s in all (limits.call_total)"},
		"of its task":  {Limits{CallTimeout: time.Second}, &core.TaskSpec{TimeoutMS: 120_000}, 1, 2 * time.Minute, "did not answer within 2m0s (timeout_ms of the task)"},
		"not the task": {Limits{CallTimeout: time.Second}, &core.TaskSpec{}, 0, time.Second, "did not answer within 1s, nor tell of progress (limits.call_timeout)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				ctx, limit := bounded(t.Context(), &tt.limits, tt.spec)
				defer limit.stop()
				go func() {
					for range tt.signs {
						time.Sleep(time.Minute)
						limit.alive()
					}
				}()
				<-ctx.Done()
				if why := context.Cause(ctx).Error(); why != tt.why || time.Since(began) != tt.ends {
					t.Errorf("after %s: %s", time.Since(began), why)
				}
				synctest.Wait()
				time.Sleep(time.Hour) // the signs are over
			})
		})
	}
}

// While a call waits until its server takes it, no limit runs; when it is sent, all
// of them begin.
func TestBounded_Queued(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		limits Limits
		spec   *core.TaskSpec
		ends   time.Duration
	}{
		"silence":     {Limits{CallTimeout: time.Minute}, nil, time.Minute},
		"in all":      {Limits{CallTotal: 5 * time.Minute}, nil, 5 * time.Minute},
		"of its task": {Limits{}, &core.TaskSpec{TimeoutMS: 120_000}, 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, limit := bounded(t.Context(), &tt.limits, tt.spec)
				defer limit.stop()
				time.Sleep(tt.ends / 2)
				limit.suspend()
				time.Sleep(time.Hour)
				if ctx.Err() != nil {
					t.Fatal(context.Cause(ctx))
				}
				limit.begin()
				began := time.Now()
				<-ctx.Done()
				if took := time.Since(began); took != tt.ends {
					t.Errorf("ended %s after it was sent: %s", took, context.Cause(ctx))
				}
			})
		})
	}
}
