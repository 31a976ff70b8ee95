package bolt_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	bbolt "go.etcd.io/bbolt"
	"go.uber.org/goleak"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/core/skiptest"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/bolt"
)

// The test binary is its own second process: with childMode set it runs one of
// children instead of the tests.
const (
	childMode = "PML_BOLT_CHILD"
	childDir  = "PML_BOLT_DIR"
	childArg  = "PML_BOLT_ARG"
)

var children = map[string]func(s *bolt.Store, arg string) error{
	"rounds": childRounds,
	"decide": childDecide,
	"hold":   childHold,
	"tell":   childTell,
}

func TestMain(m *testing.M) {
	mode := os.Getenv(childMode)
	if mode == "" {
		os.Exit(verify(m))
	}
	mode, exclusive := strings.CutPrefix(mode, "exclusive ")
	s, err := bolt.Open(bolt.Options{Dir: os.Getenv(childDir), Clock: wall{}, NewID: newID, PID: os.Getpid(), Process: "child",
		LockTimeout: hung, Exclusive: exclusive})
	if err == nil {
		err = children[mode](s, os.Getenv(childArg))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// verify runs the tests and finds goroutines that they left behind. On a busy
// machine some take seconds to end.
func verify(m *testing.M) int {
	skiptest.InMemory()
	code := m.Run()
	for tries := 1; code == 0; tries++ {
		err := goleak.Find()
		if err == nil {
			break
		}
		if tries == 60 {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	return code
}

// hung is longer than anything takes on the busiest machine with the slowest disk.
const hung = time.Minute

type wall struct{}

func (wall) Now() time.Time { return time.Now() }

// child starts this binary as another process.
func child(t testing.TB, mode, dir, arg string) (*exec.Cmd, io.WriteCloser, *bufio.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childMode+"="+mode, childDir+"="+dir, childArg+"="+arg)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, in, bufio.NewReader(out)
}

func newRun(runner string) core.Run {
	now := time.Now()
	return core.Run{ID: newID(), Side: core.SideClient, Workspace: "/w", Kind: core.KindCode, State: core.RunWaiting,
		CreatedAt: now, UpdatedAt: now, Runner: runner, Epoch: 1, DAGVersion: 1}
}

func newApproval(run core.ID) core.Approval {
	until := time.Now().Add(time.Hour)
	return core.Approval{ID: newID(), RunID: run, Workspace: "/w", Type: core.ApproveTool, Subject: "c1", Tool: "fs:write",
		Risk: core.RiskMedium, Description: "write a file", Context: json.RawMessage(`{"tool":"fs:write","arguments":{"path":"a.txt"}}`),
		Digest: "sha256:aa", State: core.ApprovalOpen, CreatedAt: time.Now(), ExpiresAt: &until}
}

func newRecord(seq int64) core.Record {
	return core.Record{Seq: seq, Kind: core.RecordSettled, CallID: "c" + strconv.FormatInt(seq, 10), Tool: "fs:read",
		Outcome: core.OutcomeSuccess, Result: json.RawMessage(`{"ok":true}`), At: time.Now()}
}

// createWaiting makes a run that waits for one approval.
func createWaiting(s *bolt.Store, large bool) (core.Run, core.Approval, error) {
	run := newRun("r")
	a := newApproval(run.ID)
	rec := newRecord(1)
	if large {
		rec.Result = json.RawMessage(`"` + strings.Repeat("x", 72<<10) + `"`)
	}
	return run, a, s.Commit(context.Background(), store.Step{Run: run, Create: true, Open: []core.Approval{a},
		Program: &core.Program{Kind: core.KindCode, Version: 1, Source: "return 1"}, Records: []core.Record{rec},
		Events: []core.Event{{Type: core.EventWorkflowStart, At: run.CreatedAt}}})
}

// round is what one approval costs: create, get, decide, delete. think runs
// between the operations; took is given the time of each.
func round(s *bolt.Store, large bool, think func(), took func(time.Duration)) error {
	ctx := context.Background()
	timed := func(f func() error) error {
		start := time.Now()
		err := f()
		took(time.Since(start))
		think()
		return err
	}
	var run core.Run
	var a core.Approval
	if err := timed(func() (err error) { run, a, err = createWaiting(s, large); return err }); err != nil {
		return err
	}
	if err := timed(func() error { _, err := s.Approvals(ctx, store.ApprovalFilter{ID: a.ID}); return err }); err != nil {
		return err
	}
	if err := timed(func() error {
		_, err := s.Decide(ctx, core.Decision{ApprovalID: a.ID, Approved: true, At: time.Now(), By: core.Actor{Who: "x"}}, store.Renewal{})
		return err
	}); err != nil {
		return err
	}
	run.State = core.RunComplete
	if err := timed(func() error { return s.Commit(ctx, store.Step{Run: run}) }); err != nil {
		return err
	}
	return timed(func() error { return s.Remove(ctx, run.ID) })
}

// childRounds does a number of rounds, or rounds without end, and prints how
// many microseconds each operation took.
func childRounds(s *bolt.Store, arg string) error {
	n, err := strconv.Atoi(arg)
	if err != nil {
		return err
	}
	think := func() {}
	if n >= 0 { // the load is an operation every 5 ms
		pace := time.NewTicker(5 * time.Millisecond)
		defer pace.Stop()
		think = func() { <-pace.C }
	}
	var times []int64
	for i := 0; n < 0 || i < n; i++ {
		if err := round(s, n < 0 && i%10 == 9, think, func(d time.Duration) { times = append(times, d.Microseconds()) }); err != nil {
			return err
		}
		if i == 0 && n < 0 {
			fmt.Println("started")
		}
		if n < 0 {
			times = times[:0]
		}
	}
	if n < 0 {
		return nil
	}
	return json.NewEncoder(os.Stdout).Encode(times)
}

// childDecide decides the approvals that it reads, its own way, and prints
// when it began and what came of it.
func childDecide(s *bolt.Store, arg string) error {
	fmt.Println("ready")
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		start := time.Now()
		_, err := s.Decide(context.Background(), core.Decision{ApprovalID: core.ID(in.Text()), Approved: arg == "yes",
			At: time.Now(), By: core.Actor{Who: arg, Via: core.ViaCLI}}, store.Renewal{})
		fmt.Printf("%d %s\n", start.UnixNano(), core.CodeOf(err))
	}
	return in.Err()
}

// childHold is a runner until its input ends.
func childHold(s *bolt.Store, _ string) error {
	r, err := s.Register(context.Background())
	if err != nil {
		return err
	}
	fmt.Println(r.ID())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func line(t testing.TB, r *bufio.Reader) string {
	t.Helper()
	text, err := r.ReadString('\n')
	if err != nil {
		t.Fatalf("the other process said nothing: %v", err)
	}
	return strings.TrimSpace(text)
}

// TestProcesses_Sixteen is the load of the issue in small; with
// PML_STORE_ROUNDS=200 it is the whole of it.
func TestProcesses_Sixteen(t *testing.T) {
	rounds := "10"
	if v := os.Getenv("PML_STORE_ROUNDS"); v != "" {
		rounds = v
	}
	dir := t.TempDir()
	var mu sync.Mutex
	var all []int64
	var wg sync.WaitGroup
	for range 16 {
		cmd, _, out := child(t, "rounds", dir, rounds)
		wg.Go(func() {
			var times []int64
			if err := json.NewDecoder(out).Decode(&times); err != nil {
				t.Error(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, times...)
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	slices.Sort(all)
	at := func(q float64) time.Duration {
		return time.Duration(all[int(q*float64(len(all)-1))]) * time.Microsecond
	}
	t.Logf("%d operations: p50 %v, p99 %v, max %v", len(all), at(0.5), at(0.99), at(1))
	s := open(t, dir, wall{})
	runs, err := s.Runs(t.Context(), store.RunFilter{})
	if err != nil || len(runs) != 0 {
		t.Errorf("%d runs left, %v", len(runs), err)
	}
	checkIntegrity(t, s, dir)
}

// killSoon kills a process at a random moment of its next 15 ms, wherever it is
// in what it does, and returns when it is gone.
func killSoon(cmd *exec.Cmd) {
	kill := time.AfterFunc(time.Duration(rand.IntN(15_000))*time.Microsecond, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	_ = cmd.Wait()
}

// TestProcesses_Kill kills processes at random moments; what is left must be
// whole, and nothing may stay locked.
func TestProcesses_Kill(t *testing.T) {
	dir := t.TempDir()
	kills := skiptest.Brief(8, 40)
	for range kills {
		cmd, _, out := child(t, "rounds", dir, "-1")
		line(t, out)
		killSoon(cmd)
	}
	s := open(t, dir, wall{})
	checkIntegrity(t, s, dir)
	if _, _, err := createWaiting(s, true); err != nil {
		t.Error(err)
	}
}

// childTell makes runs, and tells of each when it counts.
func childTell(s *bolt.Store, _ string) error {
	for {
		run, _, err := createWaiting(s, false)
		if err != nil {
			return err
		}
		if _, err := fmt.Println(run.ID); err != nil {
			return err
		}
	}
}

// TestProcesses_KillKeepsWhatCounts kills processes as soon as they have told of a
// commit, when most are about to bring it into the file: it is there all the same.
func TestProcesses_KillKeepsWhatCounts(t *testing.T) {
	t.Parallel()
	kills := skiptest.Brief(10, skiptest.Sized(t, 20, 60))
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, mode := t.TempDir(), "tell"
			if name == "Exclusive" {
				mode = "exclusive tell"
			}
			told := map[core.ID]bool{}
			for n := range kills {
				cmd, _, out := child(t, mode, dir, "")
				for range 1 + n%7 {
					told[core.ID(line(t, out))] = true
				}
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				rest, _ := io.ReadAll(out)
				for id := range strings.Lines(string(rest)) {
					told[core.ID(strings.TrimSpace(id))] = true
				}
				_ = cmd.Wait()
			}
			s := open(t, dir, wall{})
			for id := range told {
				if _, err := s.Run(t.Context(), id); err != nil {
					t.Errorf("%s: %v", id, err)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			checkPages(t, s.Path())
		})
	}
}

// checkIntegrity reads everything, and lets bbolt check its pages.
func checkIntegrity(t *testing.T, s *bolt.Store, dir string) {
	t.Helper()
	ctx := t.Context()
	runs, err := s.Runs(ctx, store.RunFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		if _, err := s.Journal(ctx, r.ID, 0); err != nil {
			t.Error(err)
		}
		if as, err := s.Approvals(ctx, store.ApprovalFilter{RunID: r.ID}); err != nil || len(as) != 1 {
			t.Errorf("%d approvals, %v", len(as), err)
		}
	}
	rows, err := s.Audit(ctx, store.AuditFilter{})
	if err != nil {
		t.Fatal(err)
	}
	if bad, reason := approval.Verify(rows); bad != 0 {
		t.Errorf("audit row %d: %s", bad, reason)
	}
	checkPages(t, filepath.Join(dir, "pending.db"))
}

// checkPages lets bbolt check a file that nobody has open.
func checkPages(t *testing.T, path string) {
	t.Helper()
	var file *os.File
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: hung,
		OpenFile: func(path string, flag int, mode os.FileMode) (f *os.File, err error) {
			file, err = os.OpenFile(path, flag, mode)
			return file, err
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	// bbolt only closes what it has read. A child that another test is just
	// starting may have a copy of the descriptor, and with it the lock.
	defer bolt.UnlockFile(file)
	if err := db.View(func(tx *bbolt.Tx) error {
		for err := range tx.Check() {
			t.Error(err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// TestProcesses_DecideOnce lets two processes decide the same approvals in
// opposite ways, 50 times: one wins each.
func TestProcesses_DecideOnce(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, wall{})
	var in [2]io.WriteCloser
	var out [2]*bufio.Reader
	for i, way := range []string{"yes", "no"} {
		var cmd *exec.Cmd
		cmd, in[i], out[i] = child(t, "decide", dir, way)
		line(t, out[i])
		t.Cleanup(func() { _ = in[i].Close(); _ = cmd.Wait() })
	}
	won := [2]int{}
	for range 50 {
		_, a, err := createWaiting(s, false)
		if err != nil {
			t.Fatal(err)
		}
		for i := range in {
			fmt.Fprintln(in[i], a.ID)
		}
		wins := 0
		for i := range out {
			_, code, _ := strings.Cut(line(t, out[i]), " ")
			switch core.Code(code) {
			case "":
				wins++
				won[i]++
			case core.CodeAlreadyDecided:
			default:
				t.Errorf("code %s", code)
			}
		}
		if wins != 1 {
			t.Fatalf("%d won", wins)
		}
	}
	t.Logf("won: %v", won)
}

// TestProcesses_Runner: a runner lives as long as its process, whatever ends it.
func TestProcesses_Runner(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, wall{})
	cmd, _, out := child(t, "hold", dir, "")
	id := line(t, out)
	if alive, err := s.Alive(t.Context(), id); !alive || err != nil {
		t.Errorf("alive: %v, %v", alive, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if alive, err := s.Alive(t.Context(), id); alive || err != nil {
		t.Errorf("after kill: alive %v, %v", alive, err)
	}
	if _, err := os.Stat(dir + "/runners/" + id + ".lock"); !os.IsNotExist(err) {
		t.Errorf("the stale file is still there: %v", err)
	}
}

// TestRunners_Tidy: a new runner removes what dead ones left, and nothing else.
func TestRunners_Tidy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, wall{})
	first, err := s.Register(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dead := dir + "/runners/" + string(newID()) + ".lock"
	if err := os.WriteFile(dead, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	second, err := s.Register(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dead); !os.IsNotExist(err) {
		t.Errorf("the stale file is still there: %v", err)
	}
	for _, r := range []store.Runner{first, second} {
		if alive, err := s.Alive(t.Context(), r.ID()); !alive || err != nil {
			t.Errorf("alive: %v, %v", alive, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestProcesses_WakeUp measures from the begin of a decision in one process to
// the wake-up in another.
func TestProcesses_WakeUp(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, wall{})
	cmd, in, out := child(t, "decide", dir, "yes")
	line(t, out)
	ch, err := s.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var times []time.Duration
	for range 100 {
		_, a, err := createWaiting(s, false)
		if err != nil {
			t.Fatal(err)
		}
		<-ch // our own commit
		fmt.Fprintln(in, a.ID)
		<-ch
		woke := time.Now()
		began, _, _ := strings.Cut(line(t, out), " ")
		nanos, err := strconv.ParseInt(began, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		times = append(times, woke.Sub(time.Unix(0, nanos)))
	}
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	slices.Sort(times)
	t.Logf("p50 %v, p99 %v", times[50], times[99])
	// Most of it is the disk and the machine's load. What is not told at once is
	// found after two seconds.
	if times[50] > time.Second {
		t.Errorf("p50 is %v: nothing told of the decisions", times[50])
	}
}
