package presence_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/presence"
)

// leaveJoined is kept by the process that joins: a lock that nobody has any more is closed
// with the next collection of garbage.
var leaveJoined func()

// TestMain joins as another process where a test asks for it.
func TestMain(m *testing.M) {
	if dir := os.Getenv("PRESENCE_JOIN"); dir != "" {
		var err error
		if leaveJoined, err = presence.Join(dir, host("killed", 5)); err != nil {
			panic(err)
		}
		_, _ = os.Stdout.WriteString("joined")
		_, _ = os.Stdin.Read(make([]byte, 1)) // until it is killed; select{} alone is a deadlock, which ends it
	}
	os.Exit(m.Run())
}

func host(name string, minute int) api.ConnectedHost {
	return api.ConnectedHost{Client: core.Client{Name: name}, PID: minute, Since: time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC)}
}

func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	hosts, err := presence.List[api.ConnectedHost](dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hosts {
		list = append(list, h.Client.Name)
	}
	slices.Sort(list)
	return list
}

func want(t *testing.T, dir string, want ...string) {
	t.Helper()
	got := names(t, dir)
	if len(got) != len(want) {
		t.Fatalf("%q, want %q", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%q, want %q", got, want)
		}
	}
}

// Who has joined is listed, and gone without a trace after
// leaving.
func TestJoin(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "clients")
	want(t, dir)
	leaveB, err := presence.Join(dir, host("b", 2))
	if err != nil {
		t.Fatal(err)
	}
	leaveA, err := presence.Join(dir, host("a", 1))
	if err != nil {
		t.Fatal(err)
	}
	want(t, dir, "a", "b")
	want(t, dir, "a", "b") // looking changes nothing
	leaveA()
	want(t, dir, "b")
	leaveB()
	want(t, dir)
	if files, _ := os.ReadDir(dir); len(files) != 0 {
		t.Errorf("left: %v", files)
	}
}

// A process that was killed is not listed, and its files go.
func TestList_Killed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PRESENCE_JOIN="+dir)
	out, err := cmd.StdoutPipe()
	if err == nil {
		_, err = cmd.StdinPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	want(t, dir, "killed")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	want(t, dir)
	if files, _ := os.ReadDir(dir); len(files) != 0 {
		t.Errorf("left: %v", files)
	}
}

// What a process leaves that was killed before its record stood goes, too; what one has that
// is about to write its record stays.
func TestList_KilledWhileItJoined(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"1.lock", "2.lock", "2.new", "3.new"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	joining := flock.New(filepath.Join(dir, "4.lock"))
	if ok, err := joining.TryLock(); !ok {
		t.Fatal(err)
	}
	defer func() { _ = joining.Close() }()
	want(t, dir)
	if files, _ := os.ReadDir(dir); len(files) != 1 || files[0].Name() != "4.lock" {
		t.Errorf("left: %v", files)
	}
}

// Who joins while others list is listed: nobody takes a lock away before it is held.
func TestJoin_WhileListed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	var lists sync.WaitGroup
	for range 4 {
		lists.Go(func() {
			for ctx.Err() == nil {
				if _, err := presence.List[api.ConnectedHost](dir); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 200 {
		leave, err := presence.Join(dir, host("a", 1))
		if err != nil {
			t.Fatal(err)
		}
		want(t, dir, "a")
		leave()
	}
	cancel()
	lists.Wait()
}

// A record that cannot be read lists nobody, and hides nobody.
func TestList_Damaged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	leave, err := presence.Join(dir, host("a", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	leaveBad, err := presence.Join(dir, host("bad", 2))
	if err != nil {
		t.Fatal(err)
	}
	defer leaveBad()
	files, _ := filepath.Glob(filepath.Join(dir, "*.json"))
	for _, f := range files {
		if raw, _ := os.ReadFile(f); bytes.Contains(raw, []byte(`"bad"`)) {
			if err := os.WriteFile(f, []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	want(t, dir, "a")
}
