//go:build unix

package daemon_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/daemon"
)

// hung is longer than anything takes on the busiest machine.
const hung = 3 * time.Minute

// fakeServer is the argument with which the test binary is a server.
const fakeServer = "__fake_server"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == fakeServer {
		if err := serve(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// serve is a server with nothing behind it: MODE VERSION PROTOCOL [--ready-fd N].
func serve(args []string) error {
	home, mode := os.Getenv("PML_HOME"), args[0]
	if err := appendTo(filepath.Join(home, "starts"), strconv.Itoa(os.Getpid())); err != nil {
		return err
	}
	var ready *daemon.Ready
	var err error
	if len(args) == 5 {
		fd, _ := strconv.Atoi(args[4])
		if ready, err = daemon.OpenReady(fd); err != nil {
			return err
		}
	}
	switch mode {
	case "newer":
		ready.Tell(core.Errorf(core.CodeStoreNewer, "server.db is of a newer pml").WithNext("pml", "doctor"))
		return nil
	case "dies":
		return errors.New("something is broken")
	}
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	claim, err := daemon.NewClaim(stop, home)
	if err != nil {
		ready.Tell(err)
		return nil
	}
	defer claim.Close()
	return answer(stop, home, args, claim, ready, func() { ready.Tell(nil) })
}

func answer(stop context.Context, home string, args []string, claim *daemon.Claim, ready *daemon.Ready, listens func()) error {
	path, err := daemon.SocketPath(home, os.LookupEnv)
	if err != nil {
		return err
	}
	_ = os.Remove(path)
	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	protocol, _ := strconv.Atoi(args[2])
	st := api.ServerStatus{Version: args[1], Protocol: protocol, PID: os.Getpid(), Background: ready != nil, Waiting: 3}
	if args[0] == "lies" {
		st.PID = os.Getppid()
	}
	if err := claim.Publish(daemon.Record{Version: st.Version, Protocol: protocol, PID: os.Getpid(), Socket: path, Background: st.Background}); err != nil {
		return err
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if args[0] == "silent" {
			<-r.Context().Done()
			return
		}
		json.NewEncoder(w).Encode(st)
	})}
	go srv.Serve(l)
	listens()
	<-stop.Done()
	return srv.Close()
}

func appendTo(name, line string) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.WriteString(f, line+"\n")
	return err
}

// newHome is a home whose path is short enough for a socket.
func newHome(t *testing.T) string {
	t.Helper()
	home, err := os.MkdirTemp("/tmp", "pml-d-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if rec, ok := daemon.ReadRecord(home); ok {
			_ = syscall.Kill(rec.PID, syscall.SIGKILL)
		}
		os.RemoveAll(home)
	})
	return home
}

func options(t *testing.T, home, mode, version string) daemon.Options {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return daemon.Options{
		Home: home, Version: version, Command: []string{self, fakeServer, mode, version, strconv.Itoa(api.Protocol)},
		Environ: os.LookupEnv, Names: []string{"PATH", "HOME", "TMPDIR"},
		AnswerTime: hung, StartTime: hung, StopTime: hung,
	}
}

func starts(t *testing.T, home string) []string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(home, "starts"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(raw))
}

func TestStart_ManyAtOnce(t *testing.T) {
	t.Parallel()
	home := newHome(t)
	var wg sync.WaitGroup
	pids := make([]int, 16)
	for i := range pids {
		wg.Go(func() {
			s, err := daemon.New(options(t, home, "ok", "v1.0.0")).Start(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			pids[i] = s.PID
		})
	}
	wg.Wait()
	for _, pid := range pids {
		if pid != pids[0] {
			t.Errorf("several servers: %v", pids)
			break
		}
	}
	if got := starts(t, home); len(got) != 1 {
		t.Errorf("%d servers were started", len(got))
	}
	if info, err := os.Stat(filepath.Join(home, "server.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("server.json: %v %v", info, err)
	}
	sid, _, errno := syscall.Syscall(syscall.SYS_GETSID, uintptr(pids[0]), 0, 0)
	if errno != 0 || int(sid) != pids[0] {
		t.Errorf("the server is in session %d (%v), want one of its own", sid, errno)
	}
	stopped(t, home)
}

// stopped stops the server of a home and checks that nothing is left of it.
func stopped(t *testing.T, home string) {
	t.Helper()
	d := daemon.New(options(t, home, "ok", "v1.0.0"))
	s, err := d.Stop(t.Context())
	if err != nil || s == nil || s.Waiting != 3 {
		t.Fatalf("stop: %+v, %v", s, err)
	}
	if s, err := d.Find(t.Context()); s != nil || err != nil {
		t.Errorf("still there: %+v, %v", s, err)
	}
	if _, ok := daemon.ReadRecord(home); ok {
		t.Error("server.json is still there")
	}
	if s, err := d.Stop(t.Context()); s != nil || err != nil {
		t.Errorf("stopping nothing: %+v, %v", s, err)
	}
}

func TestStart_ErrorOfTheServer(t *testing.T) {
	t.Parallel()
	home := newHome(t)
	_, err := daemon.New(options(t, home, "newer", "v1.0.0")).Start(t.Context())
	if core.CodeOf(err) != core.CodeStoreNewer || len(core.AsError(err).Next) == 0 {
		t.Errorf("the server's error did not come back whole: %#v", err)
	}
	_, err = daemon.New(options(t, home, "dies", "v1.0.0")).Start(t.Context())
	if core.CodeOf(err) != core.CodeServerUnreachable {
		t.Errorf("a server that dies: %v", err)
	}
	raw, rerr := os.ReadFile(daemon.LogFile(home))
	if rerr != nil || !strings.Contains(string(raw), "something is broken") {
		t.Errorf("its last words are not in the log: %q %v", raw, rerr)
	}
}

func TestStart_Refused(t *testing.T) {
	t.Parallel()
	home := newHome(t)
	o := options(t, home, "ok", "v1.0.0")
	o.NoStart = "CI is set"
	_, err := daemon.New(o).Start(t.Context())
	if core.CodeOf(err) != core.CodeServerUnreachable || !strings.Contains(err.Error(), "CI is set") {
		t.Errorf("start: %v", err)
	}
	if _, err := os.Stat(filepath.Join(home, "starts")); err == nil {
		t.Error("a server was started all the same")
	}
}

func TestStart_HandOver(t *testing.T) {
	t.Parallel()
	home := newHome(t)
	old, err := daemon.New(options(t, home, "ok", "v1.0.0")).Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			s, err := daemon.New(options(t, home, "ok", "v1.1.0")).Start(t.Context())
			if err != nil || s.Version != "v1.1.0" || s.PID == old.PID {
				t.Errorf("hand-over: %+v, %v", s, err)
			}
		})
	}
	wg.Wait()
	if got := starts(t, home); len(got) != 2 {
		t.Errorf("%d servers were started, want 2", len(got))
	}
	// An older pml uses the newer server.
	if s, err := daemon.New(options(t, home, "ok", "v1.0.0")).Start(t.Context()); err != nil || s.Version != "v1.1.0" || s.Warning != "" {
		t.Errorf("an older pml: %+v, %v", s, err)
	}
}

// byHand runs a fake server as a person would start it.
func byHand(t *testing.T, home, mode, version string, protocol int) {
	t.Helper()
	ready := make(chan struct{})
	stop, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		claim, err := daemon.NewClaim(stop, home)
		if err != nil {
			t.Error(err)
			close(ready)
			return
		}
		defer claim.Close()
		if err := answer(stop, home, []string{mode, version, strconv.Itoa(protocol)}, claim, nil, func() { close(ready) }); err != nil {
			t.Error(err)
		}
	}()
	<-ready
	t.Cleanup(func() {
		cancel()
		<-ended
		_ = os.Remove(filepath.Join(home, "server.json")) // it names this process
	})
}

func TestStart_ByHand(t *testing.T) {
	t.Parallel()
	home := newHome(t)
	byHand(t, home, "ok", "v1.0.0", api.Protocol)
	s, err := daemon.New(options(t, home, "ok", "v1.1.0")).Start(t.Context())
	if err != nil || s.Version != "v1.0.0" || !strings.Contains(s.Warning, "by hand") {
		t.Errorf("an older one that was started by hand: %+v, %v", s, err)
	}
}

func TestStart_OtherProtocol(t *testing.T) {
	t.Parallel()
	home := newHome(t)
	byHand(t, home, "ok", "v9.0.0", api.Protocol+1)
	_, err := daemon.New(options(t, home, "ok", "v1.1.0")).Start(t.Context())
	if core.CodeOf(err) != core.CodeServerUnreachable || !strings.Contains(err.Error(), "update this pml") {
		t.Errorf("another protocol: %v", err)
	}
}

func TestFind_Silent(t *testing.T) {
	t.Parallel()
	home := newHome(t)
	byHand(t, home, "silent", "v1.0.0", api.Protocol)
	o := options(t, home, "ok", "v1.0.0")
	o.AnswerTime = 50 * time.Millisecond
	if _, err := daemon.New(o).Start(t.Context()); core.CodeOf(err) != core.CodeServerUnreachable {
		t.Errorf("a server that does not answer: %v", err)
	}
}

// A process that the socket does not speak of is never sent a signal: this test
// would end with it.
func TestStop_AnotherProcess(t *testing.T) {
	t.Parallel()
	home := newHome(t)
	byHand(t, home, "lies", "v1.0.0", api.Protocol)
	if _, err := daemon.New(options(t, home, "ok", "v1.0.0")).Stop(t.Context()); core.CodeOf(err) != core.CodeServerUnreachable {
		t.Errorf("stop: %v", err)
	}
}

func TestStart_Leftovers(t *testing.T) {
	t.Parallel()
	home := newHome(t)
	first, err := daemon.New(options(t, home, "ok", "v1.0.0")).Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(first.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// Its lock is free once it is gone, which can take a busy machine longer than a claim waits.
	claim, err := daemon.NewClaim(t.Context(), home)
	for tries := 0; core.CodeOf(err) == core.CodeStoreBusy && tries < 50; tries++ {
		claim, err = daemon.NewClaim(t.Context(), home)
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = claim.Close()
	if _, ok := daemon.ReadRecord(home); !ok {
		t.Fatal("nothing was left behind: the test shows nothing")
	}
	second, err := daemon.New(options(t, home, "ok", "v1.0.0")).Start(t.Context())
	if err != nil || second.PID == first.PID {
		t.Errorf("after a kill: %+v, %v", second, err)
	}
	stopped(t, home)
}

func TestNewClaim_Taken(t *testing.T) {
	t.Parallel()
	home := newHome(t)
	first, err := daemon.NewClaim(t.Context(), home)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Publish(daemon.Record{PID: 1 << 30}); err != nil {
		t.Fatal(err)
	}
	if _, err := daemon.NewClaim(t.Context(), home); core.CodeOf(err) != core.CodeStoreBusy || !strings.Contains(err.Error(), "1073741824") {
		t.Errorf("a second server: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
}

// Whoever reads what a starter writes must see its end although the server
// goes on.
func TestStart_KeepsNoDescriptor(t *testing.T) {
	t.Parallel()
	home := newHome(t)
	var fds [2]int
	if err := syscall.Pipe(fds[:]); err != nil { // as a shell leaves one: it goes to children
		t.Fatal(err)
	}
	r, w := os.NewFile(uintptr(fds[0]), "r"), os.NewFile(uintptr(fds[1]), "w")
	if _, err := daemon.New(options(t, home, "ok", "v1.0.0")).Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if err := r.SetReadDeadline(time.Now().Add(hung)); err == nil {
		t.Log("the pipe has a deadline")
	}
	if _, err := io.ReadAll(r); err != nil {
		t.Errorf("the server kept the pipe: %v", err)
	}
	stopped(t, home)
}

// TestOpenReady_Children: what a server starts before it is ready does not keep
// its starter waiting.
func TestOpenReady_Children(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	// As a server gets it: open for its children, until it has taken it over.
	syscall.ForkLock.RLock()
	fd, err := syscall.Dup(int(w.Fd()))
	var ready *daemon.Ready
	if err == nil {
		ready, err = daemon.OpenReady(fd)
	}
	syscall.ForkLock.RUnlock()
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	child := exec.Command("cat")
	hold, err := child.StdinPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = hold.Close(), child.Wait() }()
	ready.Tell(nil)
	if err := r.SetReadDeadline(time.Now().Add(hung)); err != nil {
		t.Fatal(err)
	}
	if said, err := io.ReadAll(r); err != nil || string(said) != "{}\n" {
		t.Errorf("heard %q, %v", said, err)
	}
}

// TestHeard_OneWord: a starter goes on with the word of the server, though the
// pipe stays open.
func TestHeard_OneWord(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	defer r.Close()
	go func() { _, _ = io.WriteString(w, "{}\n") }()
	if said, failed, err := daemon.Heard(r); !said || failed != nil || err != nil {
		t.Errorf("heard %v, %v, %v", said, failed, err)
	}
}
