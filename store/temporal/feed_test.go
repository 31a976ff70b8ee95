package temporal_test

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/temporal"
)

// logged is a step that logs a line.
func logged(run core.Run, line string, at time.Time) store.Step {
	return store.Step{Run: run, Events: []core.Event{{Type: core.EventTaskLog, Message: line, At: at.UTC()}}}
}

// follow reads the events of all runs as they come, a page at a time, until there are as many as wanted. Each must have a
// higher number than the one before.
func follow(t *testing.T, s *temporal.Store, want int) (all []core.Event) {
	t.Helper()
	changes, err := s.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	late := time.After(time.Minute)
	for last := int64(0); ; {
		page, err := s.Events(t.Context(), store.EventFilter{After: last, Limit: 7})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page {
			if e.Seq <= last {
				t.Fatalf("after %d comes %d", last, e.Seq)
			}
			last = e.Seq
		}
		all = append(all, page...)
		if len(all) >= want && len(page) < 7 {
			return all
		}
		if len(page) == 7 {
			continue
		}
		select {
		case <-changes:
		case <-late:
			t.Fatalf("%d of %d events after a minute", len(all), want)
		}
	}
}

// TestFeed: the runs of two processes, which take steps at the same time, are told in one order by each: every event once, those of a
// run in their order, and with the numbers that the run's own list has. A process that comes later tells them, too.
func TestFeed(t *testing.T) {
	t.Parallel()
	opts := options(t)
	a, b := open(t, opts), open(t, opts)
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	const runs, steps = 5, 8
	var wg sync.WaitGroup
	for i := range 2 * runs {
		s := []*temporal.Store{a, b}[i%2]
		wg.Go(func() {
			run := newRun(time.Now(), func(r *core.Run) { r.Runner = "r" + strconv.Itoa(i%2) })
			err := s.Commit(t.Context(), begun(run))
			for n := 0; n < steps && err == nil; n++ {
				err = s.Commit(t.Context(), logged(run, strconv.Itoa(n), time.Now()))
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	const all = 2 * runs * steps
	var told [2][]core.Event
	for i, s := range []*temporal.Store{a, b} {
		wg.Go(func() { told[i] = follow(t, s, all) })
	}
	wg.Wait()
	for i, s := range []*temporal.Store{a, b} {
		wantOnce(t, told[i], all, steps)
		wantSame(t, s, told[i])
	}
	c := open(t, opts)
	t.Cleanup(func() { _ = c.Close() })
	late := follow(t, c, all)
	wantOnce(t, late, all, steps)
	wantSame(t, c, late)
}

// wantOnce wants so many events, those of each run in their order.
func wantOnce(t *testing.T, told []core.Event, all, steps int) {
	t.Helper()
	if len(told) != all {
		t.Errorf("%d events, want %d", len(told), all)
	}
	next := map[core.ID]int{}
	for _, e := range told {
		if e.Message != strconv.Itoa(next[e.RunID]) {
			t.Fatalf("event %s of %s comes where %d is to come", e.Message, e.RunID, next[e.RunID])
		}
		next[e.RunID]++
	}
	for run, n := range next {
		if n != steps {
			t.Errorf("%d events of %s", n, run)
		}
	}
}

// wantSame wants the events of each run to have the same numbers in its own list, from every one of them on.
func wantSame(t *testing.T, s *temporal.Store, told []core.Event) {
	t.Helper()
	of := map[core.ID][]int64{}
	for _, e := range told {
		of[e.RunID] = append(of[e.RunID], e.Seq)
	}
	for run, numbers := range of {
		for i := range numbers {
			after := int64(0)
			if i > 0 {
				after = numbers[i-1]
			}
			list, err := s.Events(t.Context(), store.EventFilter{RunID: run, After: after})
			var got []int64
			for _, e := range list {
				got = append(got, e.Seq)
			}
			if err != nil || !slices.Equal(got, numbers[i:]) {
				t.Fatalf("after %d: %v %v, want %v", after, err, got, numbers[i:])
			}
		}
	}
}

// TestFeed_Late: an event that is learned of after later ones of other runs comes behind them, here and in the list of its run;
// who reads on from what has been told misses nothing.
func TestFeed_Late(t *testing.T) {
	t.Parallel()
	s := open(t, options(t))
	t.Cleanup(func() { _ = s.Close() })
	now := time.Now()
	first, second := newRun(now), newRun(now)
	for _, step := range []store.Step{begun(first), begun(second), logged(first, "first", now)} {
		if err := s.Commit(t.Context(), step); err != nil {
			t.Fatal(err)
		}
	}
	last := follow(t, s, 1)[0].Seq
	if last != now.UnixMicro() {
		t.Errorf("the number %d is not the time %d", last, now.UnixMicro())
	}
	for n := range 2 {
		if err := s.Commit(t.Context(), logged(second, fmt.Sprint("late ", n), now.Add(-10*time.Second))); err != nil {
			t.Fatal(err)
		}
	}
	list, err := s.Events(t.Context(), store.EventFilter{After: last})
	if err != nil || len(list) != 2 || list[0].Message != "late 0" || list[0].Seq != last+1 || list[1].Seq != last+2 {
		t.Fatalf("%v %+v", err, list)
	}
	wantSame(t, s, list)
	if err := s.Commit(t.Context(), logged(second, "in time", now.Add(time.Second))); err != nil {
		t.Fatal(err)
	}
	own, err := s.Events(t.Context(), store.EventFilter{RunID: second.ID, After: list[0].Seq})
	if err != nil || len(own) != 2 || own[0].Message != "late 1" || own[1].Seq != now.Add(time.Second).UnixMicro() {
		t.Errorf("%v %+v", err, own)
	}
}

// TestFeed_Forgets: a process remembers so many events and no more. A run that has been forgotten and does something again is told
// of with what is new.
func TestFeed_Forgets(t *testing.T) {
	t.Parallel()
	s := open(t, options(t))
	t.Cleanup(func() { _ = s.Close() })
	s.KeepEvents(20)
	now := time.Now()
	old, busy := newRun(now), newRun(now)
	steps := []store.Step{begun(old), logged(old, "old", now)}
	steps = append(steps, begun(busy))
	for n := range 30 {
		steps = append(steps, logged(busy, strconv.Itoa(n), now.Add(time.Duration(n)*time.Millisecond)))
	}
	for _, step := range steps {
		if err := s.Commit(t.Context(), step); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Events(t.Context(), store.EventFilter{}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := s.Events(t.Context(), store.EventFilter{})
	if err != nil || len(list) < 20 || len(list) > 22 || list[len(list)-1].Message != "29" {
		t.Fatalf("%v %d events", err, len(list))
	}
	last := list[len(list)-1].Seq
	if err := s.Commit(t.Context(), logged(old, "again", now.Add(time.Second))); err != nil {
		t.Fatal(err)
	}
	list, err = s.Events(t.Context(), store.EventFilter{After: last})
	if err != nil || len(list) != 1 || list[0].Message != "again" {
		t.Errorf("%v %+v", err, list)
	}
	own, err := s.Events(t.Context(), store.EventFilter{RunID: old.ID})
	if err != nil || len(own) != 2 {
		t.Errorf("%v %+v", err, own)
	}
}
