//go:build unix

package bench_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/client"
)

// BenchmarkRecovery measures a take-over with the real program: a
// server runs a DAG of 10 layers of 10 tasks, each a call of a tool in another
// process, and is killed with -9 in the middle of layer 5; what it has started
// ends with it. Then a new one is started. Reported are the times until its socket
// answers (up-ms) and from then on until the DAG is complete (ms), and how many
// tasks ran again whose outcome was kept (again). The floor starts a tool's
// server, makes the calls that were left, layer by layer, and commits their
// results.
//
//	go test -run '^$' -bench Recovery -benchtime 20x ./cmd/pml/bench
func BenchmarkRecovery(b *testing.B) {
	pml, rec := buildBench(b, "./cmd/pml"), buildBench(b, "./testdata/recorder")
	for _, in := range keptIn {
		b.Run(in.name, func(b *testing.B) {
			r := newRecovery(b, pml, rec)
			if in.name == "postgres" {
				r.serve = append(r.serve, "--store", postgresURL(b))
			}
			floor := newBare(b, in.open(b).floor)
			var own, up, floors []time.Duration
			again := 0
			for b.Loop() {
				again += r.round(&own, &up)
				timed(&floors, func() { r.bare(floor) })
			}
			report(b, own, floors)
			b.ReportMetric(float64(median(up).Microseconds())/1000, "up-ms")
			b.ReportMetric(float64(again), "again")
		})
	}
}

// recovery is a machine whose server is killed.
type recovery struct {
	b         *testing.B
	pml, rec  string
	env       []string
	serve     []string
	ws, log   string
	file      string // the tasks in the middle wait for it
	client    *client.Client
	workflows int
}

func newRecovery(b *testing.B, pml, rec string) *recovery {
	b.Helper()
	dir, err := os.MkdirTemp("", "pml-w5-*") // b.TempDir is too long for a socket
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	r := &recovery{b: b, pml: pml, rec: rec, serve: []string{"serve"}, ws: filepath.Join(dir, "ws"), log: filepath.Join(dir, "calls.jsonl"), file: filepath.Join(dir, "go-on")}
	if err := os.Mkdir(r.ws, 0o700); err != nil {
		b.Fatal(err)
	}
	config := fmt.Sprintf(`{"mcpServers": {"rec": {"command": %q, "args": ["--log", %q]}}, "permissions": {"allow": ["rec"]}, "limits": {"per_server": 256}}`, rec, r.log)
	if err := os.WriteFile(filepath.Join(r.ws, ".pml.json"), []byte(config), 0o600); err != nil {
		b.Fatal(err)
	}
	r.live(filepath.Join(dir, "home"))
	return r
}

// live gives the servers of a machine their home.
func (r *recovery) live(home string) {
	r.b.Helper()
	r.env = []string{"PML_HOME=" + home, "PML_WORKSPACE=" + r.ws, "HOME=" + filepath.Dir(home), "PATH=" + os.Getenv("PATH")}
	if out, err := r.command("trust", "--yes").CombinedOutput(); err != nil {
		r.b.Fatalf("%v: %s", err, out)
	}
	var err error
	r.client, err = client.New(client.Options{Socket: filepath.Join(home, "pml.sock"), Workspace: r.ws, Clock: benchClock{}})
	if err != nil {
		r.b.Fatal(err)
	}
	r.b.Cleanup(func() { _ = r.client.Close() })
}

func (r *recovery) command(args ...string) *exec.Cmd {
	cmd := exec.Command(r.pml, args...)
	cmd.Dir, cmd.Env = r.ws, r.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// start starts a server and returns when its socket answers.
func (r *recovery) start() *exec.Cmd {
	r.b.Helper()
	cmd := r.command(r.serve...)
	if err := cmd.Start(); err != nil {
		r.b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		if _, err := r.client.Status(ctx); err == nil {
			return cmd
		}
		select {
		case <-time.After(200 * time.Microsecond):
		case <-ctx.Done():
			r.b.Fatal("the server never answers")
		}
	}
}

// kill kills a server, and waits until what it has started is gone.
func (r *recovery) kill(cmd *exec.Cmd) {
	r.b.Helper()
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	l := flock.New(r.log + ".alive")
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if ok, err := l.TryLockContext(ctx, time.Millisecond); !ok {
		r.b.Fatal(err)
	}
	_ = l.Close()
}

// killedLayer is the layer in the middle of which the server is killed.
const killedLayer = 5

// waiting is how many calls of that layer wait: of twenty runs fewer than the recorder
// answers at once.
const waiting = 4

// errEnough ends the reading of events.
var errEnough = errors.New("enough")

// round is one run. It returns how many of its tasks ran again that had an
// outcome before.
func (r *recovery) round(own, up *[]time.Duration) int {
	r.b.Helper()
	r.workflows++
	_ = os.Remove(r.file) // of the round before
	name := fmt.Sprintf("w%d", r.workflows)
	cmd := r.start()
	res, err := r.client.Execute(r.b.Context(), api.ExecuteRequest{Tasks: r.dag(name), Detach: true})
	if err != nil {
		r.b.Fatal(err)
	}
	settled, _ := r.middle(res.WorkflowID)
	r.kill(cmd)
	if err := os.WriteFile(r.file, nil, 0o600); err != nil {
		r.b.Fatal(err)
	}
	timed(up, func() { cmd = r.start() })
	timed(own, func() {
		got, err := r.client.Continue(r.b.Context(), api.ContinueRequest{ID: res.WorkflowID, Wait: time.Minute})
		if err != nil || got.Status != api.StatusComplete {
			r.b.Fatalf("%v %+v", err, got)
		}
	})
	r.kill(cmd)
	return r.again(name, settled)
}

// middle returns in the middle of a run, with the tasks that have settled and the
// number of the newest event.
func (r *recovery) middle(id core.ID) (settled map[string]bool, last int64) {
	r.b.Helper()
	settled = map[string]bool{}
	if err := r.client.Events(r.b.Context(), id, api.Since{}, true, func(e core.Event) error {
		if last = e.Seq; e.Type == core.EventTaskComplete {
			settled[e.TaskID] = true
		}
		if len(settled) == 10*killedLayer+10-waiting {
			return errEnough
		}
		return nil
	}); !errors.Is(err, errEnough) {
		r.b.Fatal(err)
	}
	return settled, last
}

// BenchmarkTakeOver is the time from kill -9 of a server in the middle of one run, and
// of twenty at once, to the first that another one, on the same PostgreSQL, tells of
// each of them: that a task has started, or has ended. It is measured with nothing else
// running, and beside ten processes that use all the processor time they get.
//
//	go test -run '^$' -bench TakeOver -benchtime 20x ./cmd/pml/bench
func BenchmarkTakeOver(b *testing.B) {
	for _, runs := range []int{1, 20} {
		for _, others := range []int{0, 10} {
			b.Run(fmt.Sprintf("%d/beside=%d", runs, others), func(b *testing.B) {
				r := newRecovery(b, buildBench(b, "./cmd/pml"), buildBench(b, "./testdata/recorder"))
				r.serve = append(r.serve, "--store", postgresURL(b))
				r.round(new([]time.Duration), new([]time.Duration)) // from here on nothing is recorded that the other does not trust
				other := *r
				other.live(filepath.Join(filepath.Dir(r.ws), "other"))
				standing := other.start()
				b.Cleanup(func() { other.kill(standing) })
				var took []time.Duration
				for b.Loop() {
					took = append(took, r.taken(&other, runs, others)...)
				}
				slices.Sort(took)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(median(took).Microseconds())/1000, "ms")
				b.ReportMetric(float64(took[(len(took)*99-1)/100].Microseconds())/1000, "p99-ms")
			})
		}
	}
}

// busy starts processes that use all the processor time they get, and returns what
// ends them.
func busy(b *testing.B, n int) (end func()) {
	b.Helper()
	var started []*exec.Cmd
	for range n {
		cmd := exec.Command("/bin/sh", "-c", "while :; do :; done")
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		started = append(started, cmd)
	}
	return sync.OnceFunc(func() {
		for _, cmd := range started {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
}

// taken starts runs on a server and kills it in the middle of all of them. It returns
// how long it took until the other one told of each.
func (r *recovery) taken(other *recovery, runs, others int) []time.Duration {
	r.b.Helper()
	_ = os.Remove(r.file)
	cmd := r.start()
	ids, last := make([]core.ID, runs), make([]int64, runs)
	for i := range ids {
		r.workflows++
		res, err := r.client.Execute(r.b.Context(), api.ExecuteRequest{Tasks: r.dag(fmt.Sprintf("w%d", r.workflows)), Detach: true})
		if err != nil {
			r.b.Fatal(err)
		}
		ids[i] = res.WorkflowID
	}
	for i, id := range ids {
		_, last[i] = r.middle(id)
	}
	end := busy(r.b, others)
	defer end()
	began := time.Now()
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err := os.WriteFile(r.file, nil, 0o600); err != nil {
		r.b.Fatal(err)
	}
	took := make([]time.Duration, runs)
	var wg sync.WaitGroup
	for i, id := range ids {
		wg.Go(func() {
			err := other.client.Events(r.b.Context(), id, api.Since{Any: last[i]}, true, func(core.Event) error { return errEnough })
			if took[i] = time.Since(began); !errors.Is(err, errEnough) {
				r.b.Error(err)
			}
			got, err := other.client.Continue(r.b.Context(), api.ContinueRequest{ID: id, Wait: time.Minute})
			if err != nil || got.Status != api.StatusComplete {
				r.b.Errorf("%v %+v", err, got)
			}
		})
	}
	wg.Wait()
	return took
}

// again counts the calls of tasks beyond the first of those that had settled.
func (r *recovery) again(name string, settled map[string]bool) int {
	raw, err := os.ReadFile(r.log)
	if err != nil {
		r.b.Fatal(err)
	}
	n := 0
	for id := range settled {
		n += strings.Count(string(raw), fmt.Sprintf(`"event":"start","server":"rec","tool":"echo","args":{"value":"%s.%s"}`, name, id)) - 1
	}
	return n
}

// dag is 10 layers of 10 tasks that do nothing; some of a layer wait for a file.
func (r *recovery) dag(name string) []core.TaskSpec {
	var tasks []core.TaskSpec
	for l := range 10 {
		for i := range 10 {
			spec := core.TaskSpec{ID: fmt.Sprintf("t%d_%d", l, i), Tool: "rec:echo"}
			spec.Arguments = json.RawMessage(fmt.Sprintf(`{"value": "%s.%s"}`, name, spec.ID))
			if l == killedLayer && i >= 10-waiting {
				spec.Tool, spec.Arguments = "rec:wait", json.RawMessage(fmt.Sprintf(`{"file": %q}`, r.file))
			}
			for d := range 10 {
				if l > 0 {
					spec.DependsOn = append(spec.DependsOn, fmt.Sprintf("t%d_%d", l-1, d))
				}
			}
			tasks = append(tasks, spec)
		}
	}
	return tasks
}

// bare does what is left with nothing around it.
func (r *recovery) bare(floor *bare) {
	r.b.Helper()
	c := bareClient(r.b, r.rec, r.log+".floor")
	for _, width := range []int{5, 10, 10, 10, 10} {
		bareCalls(r.b, c, width, width)
		rows := make([]any, width)
		for i := range rows {
			rows[i] = core.Record{Kind: core.RecordSettled, CallID: "x", Tool: "rec:echo", Args: json.RawMessage(`{"value":"x"}`), Result: json.RawMessage(`{"value":"x"}`), StartedAt: time.Now()}
		}
		if err := floor.commit(rows...); err != nil {
			r.b.Fatal(err)
		}
	}
	_ = c.Close()
}
