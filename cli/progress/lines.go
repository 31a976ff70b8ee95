package progress

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
)

// What lines of progress are bounded by: a log of a run with thousands of
// calls stays one that a person reads.
const (
	maxLayerLines   = 20          // each layer has a line of its own up to here
	layerLineEvery  = time.Second // after that, one line for all that are done since
	maxFailureLines = 20
	slowLayer       = time.Second // a layer that takes longer says that it has started
)

// lines tells progress where it cannot be redrawn: a line for each layer, and
// one for what a person would want to know at once.
type lines struct {
	layers   map[int]*tally // those not told yet
	told     int            // lines about layers so far
	toldAt   time.Time
	failures int
}

// tally counts the calls of a layer.
type tally struct {
	started, failed, skipped int
	first, last              time.Time
	announced                bool
}

// add counts an event.
func (l *lines) add(e core.Event) {
	if e.Layer == nil || e.TaskID == "" {
		return
	}
	if l.layers == nil {
		l.layers = map[int]*tally{}
	}
	t := l.layers[*e.Layer]
	if t == nil {
		t = &tally{first: e.At}
		l.layers[*e.Layer] = t
	}
	t.last = e.At
	switch {
	case e.Type == core.EventTaskStart:
		t.started++
	case e.Type == core.EventTaskError:
		t.failed++
	case e.Type == core.EventTaskComplete && e.Message == string(core.OutcomeSkipped):
		t.skipped++
	}
}

// done tells of the layers up to one, now or, when there were many lines
// already, together with later ones.
func (l *lines) done(upTo int, now time.Time, last bool) []string {
	var ready []int
	for n := range l.layers {
		if n <= upTo {
			ready = append(ready, n)
		}
	}
	slices.Sort(ready)
	var out []string
	for len(ready) > 0 && l.told < maxLayerLines {
		out = append(out, l.tell(ready[:1]))
		ready = ready[1:]
		l.toldAt = now
	}
	if len(ready) > 0 && (last || now.Sub(l.toldAt) >= layerLineEvery) {
		out = append(out, l.tell(ready))
		l.toldAt = now
	}
	return out
}

// tell is the line about one layer or several.
func (l *lines) tell(layers []int) string {
	sum := *l.layers[layers[0]]
	for _, n := range layers {
		t := l.layers[n]
		delete(l.layers, n)
		if n == layers[0] {
			continue
		}
		sum.started += t.started
		sum.failed += t.failed
		sum.skipped += t.skipped
		sum.last = t.last
	}
	l.told++
	name := fmt.Sprintf("layer %d", layers[0]+1)
	if n := len(layers); n > 1 {
		name = fmt.Sprintf("layers %d-%d", layers[0]+1, layers[n-1]+1)
	}
	var parts []string
	if sum.started > 0 {
		parts = append(parts, layout.Plural(sum.started, "call")+" done in "+layout.Millis(float64(sum.last.Sub(sum.first).Microseconds())/1000))
	}
	if sum.failed > 0 {
		parts = append(parts, fmt.Sprintf("%d failed", sum.failed))
	}
	if sum.skipped > 0 {
		parts = append(parts, fmt.Sprintf("%d skipped", sum.skipped))
	}
	if len(parts) == 0 {
		return name + ": done" // it only slept
	}
	return name + ": " + strings.Join(parts, ", ")
}

// slow tells of layers that have run for a while and were not told of.
func (l *lines) slow(now time.Time) []string {
	var out []string
	for n, t := range l.layers {
		if !t.announced && l.told < maxLayerLines && now.Sub(t.first) >= slowLayer {
			t.announced = true
			out = append(out, fmt.Sprintf("layer %d: %s started", n+1, layout.Plural(t.started, "call")))
		}
	}
	slices.Sort(out)
	return out
}

// failure is the line about a failed call; empty once there were too many.
func (l *lines) failure(text string) string {
	l.failures++
	switch {
	case l.failures < maxFailureLines:
		return text
	case l.failures == maxFailureLines:
		return text + "; further failures are counted only"
	}
	return ""
}
