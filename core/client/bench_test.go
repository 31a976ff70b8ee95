//go:build unix

package client_test

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/client"
)

// BenchmarkEvent is the time from an event that is committed behind a real
// server to a reader on its socket.
func BenchmarkEvent(b *testing.B) {
	c, store := benchServer(b)
	got := make(chan struct{})
	go c.Events(b.Context(), "", api.Since{}, true, func(core.Event) error {
		got <- struct{}{}
		return nil
	})
	store.emit(1)
	<-got
	times := make([]time.Duration, 0, b.N)
	for b.Loop() {
		begin := time.Now()
		store.emit(1)
		<-got
		times = append(times, time.Since(begin))
	}
	percentiles(b, times)
}

// BenchmarkExecute is a request that is answered at once, there and back.
func BenchmarkExecute(b *testing.B) {
	c, _ := benchServer(b)
	times := make([]time.Duration, 0, b.N)
	for b.Loop() {
		begin := time.Now()
		if _, err := c.Execute(b.Context(), api.ExecuteRequest{Code: "return 1", Wait: -1}); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(begin))
	}
	percentiles(b, times)
}

func benchServer(b *testing.B) (*client.Client, *behind) {
	socket := filepath.Join(b.TempDir(), "s")
	store := newBehind()
	stop := serve(b, store, socket)
	c, err := client.New(client.Options{Socket: socket, Clock: clock{}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		c.Close()
		stop()
	})
	return c, store
}

func percentiles(b *testing.B, times []time.Duration) {
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-µs")
}
