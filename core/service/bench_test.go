package service_test

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/sandbox"
	"github.com/casys-ai/pml/core/service"
	"github.com/casys-ai/pml/store/bolt"
)

// resident is the memory of this process in MB, where the system says it.
func resident() float64 {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kb / 1024
		}
	}
	return 0
}

// BenchmarkServer_Waiting makes 1,000 workflows that wait for a person, and says
// what they cost: in memory right after they stopped, and once they have left
// it; and how long one decision then takes until the workflow has ended.
func BenchmarkServer_Waiting(b *testing.B) {
	const workflows = 1000
	root := b.TempDir()
	ws := filepath.Join(root, "ws")
	if err := os.MkdirAll(ws, 0o700); err != nil {
		b.Fatal(err)
	}
	clock, discard := &clock{}, slog.New(slog.DiscardHandler)
	s, err := bolt.Open(bolt.Options{Dir: filepath.Join(root, "home"), Name: "server", Exclusive: true, Clock: clock, NewID: newID, PID: os.Getpid(), Process: "bench", Logger: discard})
	if err != nil {
		b.Fatal(err)
	}
	c := service.Open(service.Options{
		Home: env.Home{Dir: filepath.Join(root, "home")}, Workspace: env.Workspace{Dir: ws}, Environ: func(string) (string, bool) { return "", false }, Store: s,
		Sandbox: sandbox.NewPool(sandbox.Options{Command: enginetest.ChildCommand()}), Clock: clock, NewID: newID, Side: core.SideServer,
		LookPath: func(string) (string, error) { return "", os.ErrNotExist }, Logger: discard, Version: "bench", By: me,
	})
	defer c.Close()
	tasks := make([]core.TaskSpec, 0, 100)
	for layer := range 10 {
		for i := range 10 {
			t := core.TaskSpec{ID: "t" + strconv.Itoa(layer*10+i), Tool: "workspace:list_directory", Arguments: json.RawMessage(`{"path":"."}`)}
			if layer > 0 {
				t.DependsOn = []string{"t" + strconv.Itoa(layer*10+i-10)}
			}
			tasks = append(tasks, t)
		}
	}
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapInuse) / (1 << 20)
	}
	for b.Loop() {
		before := heap()
		var ids []core.ID
		began := time.Now()
		for range workflows {
			r, err := c.Execute(b.Context(), api.ExecuteRequest{Tasks: tasks, RunOptions: core.RunOptions{PerLayer: true}, By: me, Wait: -1})
			if err != nil || r.Status != api.StatusLayerComplete {
				b.Fatalf("%v %+v", err, r)
			}
			ids = append(ids, r.WorkflowID)
		}
		b.ReportMetric(float64(time.Since(began).Microseconds())/workflows, "µs/start")
		held := service.Held(c)
		b.ReportMetric(float64(held), "held")
		if held > 0 {
			b.ReportMetric((heap()-before)*1024/float64(held), "KB/held")
		}
		for again, limit := time.Tick(50*time.Millisecond), time.After(10*time.Minute); service.Held(c) > 0; {
			select {
			case <-again:
			case <-limit:
				b.Fatalf("%d runs are held for good", service.Held(c))
			}
		}
		b.ReportMetric(heap()-before, "MB-parked")
		b.ReportMetric(resident(), "MB-resident")
		began = time.Now()
		for _, id := range ids[:100] {
			r, err := c.Continue(b.Context(), api.ContinueRequest{ID: id, Decision: &api.Decision{Approve: true}, By: me, Wait: -1})
			if err != nil || r.Status != api.StatusLayerComplete {
				b.Fatalf("%v %+v", err, r)
			}
		}
		b.ReportMetric(float64(time.Since(began).Microseconds())/100, "µs/decision")
	}
}
