package daemon_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/casys-ai/pml/core/daemon"
)

func vars(m map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { v, ok := m[name]; return v, ok }
}

func TestRefusal(t *testing.T) {
	t.Parallel()
	tests := []struct {
		env  map[string]string
		want string
	}{
		{nil, ""},
		{map[string]string{"CI": "true"}, "CI is set"},
		{map[string]string{"CI": "false"}, ""},
		{map[string]string{"PML_NO_AUTOSTART": "1"}, "PML_NO_AUTOSTART is set"},
		{map[string]string{"PML_NO_AUTOSTART": "", "CI": ""}, ""},
	}
	for _, tt := range tests {
		if got := daemon.Refusal(vars(tt.env)); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.env, got, tt.want)
		}
	}
}

func TestChildEnv(t *testing.T) {
	t.Parallel()
	env := map[string]string{
		"HOME": "/home/ann", "PATH": "/bin", "LC_ALL": "C", "https_proxy": "http://p", "OTEL_EXPORTER_OTLP_ENDPOINT": "x", "PML_LOG": "debug",
		"AWS_SECRET_ACCESS_KEY": "s3cret", "PML_API_KEY": "k", "PML_WORKSPACE": "/w", "PML_HOME": "relative", "PML_SERVER": "u", "EDITOR": "vi",
	}
	var names []string
	for n := range env {
		names = append(names, n)
	}
	want := []string{
		"HOME=/home/ann", "LC_ALL=C", "OTEL_EXPORTER_OTLP_ENDPOINT=x", "PATH=/bin", "PML_HOME=/h", "PML_LOG=debug", "https_proxy=http://p",
	}
	if got := daemon.ChildEnv("/h", vars(env), names); !slices.Equal(got, want) {
		t.Errorf("environment %q, want %q", got, want)
	}
}

func TestNewer(t *testing.T) {
	t.Parallel()
	tests := []struct {
		a, b string
		want bool
	}{
		{"v1.2.3", "v1.2.2", true},
		{"v1.2.3", "v1.2.3", false},
		{"1.10.0", "v1.9.9", true},
		{"v1.0.0", "v1.0.0-rc.1", true},
		{"v1.0.0-rc.1", "v1.0.0", false},
		{"v1.0.0-rc.10", "v1.0.0-rc.9", true},
		{"v1.0.0-rc", "v1.0.0-1", true},
		{"v1.0.0-rc.1", "v1.0.0-rc", true},
		{"v0.0.0-20261122000000-aaaaaaaaaaaa", "v0.0.0-20261121000000-bbbbbbbbbbbb", true},
		{"v1.0.0+dirty", "v1.0.0", false},
		{"(devel)", "v1.0.0", false},
		{"v1.0.0", "(devel)", false},
		{"", "", false},
		{"v1.-2.0", "v1.0.0", false},
	}
	for _, tt := range tests {
		if got := daemon.Newer(tt.a, tt.b); got != tt.want {
			t.Errorf("newer(%q, %q) = %v", tt.a, tt.b, got)
		}
	}
}

func TestSocketPath(t *testing.T) {
	t.Parallel()
	if got, err := daemon.SocketPath("/home/ann/.pml", vars(nil)); err != nil || got != "/home/ann/.pml/pml.sock" {
		t.Errorf("a short home: %q, %v", got, err)
	}
	long := "/" + strings.Repeat("x", daemon.MaxSocket)
	run, err := os.MkdirTemp("/tmp", "pml-run-*") // t.TempDir is too long for a socket itself
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(run) })
	got, err := daemon.SocketPath(long, vars(map[string]string{"XDG_RUNTIME_DIR": run}))
	if err != nil || filepath.Dir(got) != run || len(got) > daemon.MaxSocket {
		t.Errorf("with XDG_RUNTIME_DIR: %q, %v", got, err)
	}
	if other, _ := daemon.SocketPath(long+"y", vars(map[string]string{"XDG_RUNTIME_DIR": run})); other == got {
		t.Error("two homes have one socket")
	}
	got, err = daemon.SocketPath(long, vars(map[string]string{"TMPDIR": run}))
	if err != nil || filepath.Dir(filepath.Dir(got)) != run {
		t.Fatalf("with TMPDIR: %q, %v", got, err)
	}
	if info, err := os.Stat(filepath.Dir(got)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder: %v, %v", info, err)
	}
	// A folder that others may enter, or a link to one, could be anybody's.
	if err := os.Chmod(filepath.Dir(got), 0o777); err != nil {
		t.Fatal(err)
	}
	if got, err := daemon.SocketPath(long, vars(map[string]string{"TMPDIR": run})); err == nil {
		t.Errorf("an open folder was used: %q", got)
	}
}

func TestIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var running atomic.Bool
		running.Store(true)
		i := &daemon.Idle{After: 10 * time.Minute, Clock: wall{}, Busy: func(context.Context) (bool, error) { return running.Load(), nil }}
		l := i.Listener(pipes{})
		begin := time.Now()
		done := make(chan time.Duration)
		go func() {
			if i.Wait(t.Context()) {
				done <- time.Since(begin)
			}
		}()
		time.Sleep(9 * time.Minute)
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Minute) // a reader of events stays connected
		conn.Close()
		conn.Close()                 // counts once
		time.Sleep(15 * time.Minute) // a run runs
		running.Store(false)
		left := <-done
		if left < 54*time.Minute || left > 64*time.Minute {
			t.Errorf("left after %s", left)
		}
	})
}

func TestIdle_ContextEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	i := &daemon.Idle{After: time.Hour, Clock: wall{}, Busy: func(context.Context) (bool, error) { return false, nil }}
	if i.Wait(ctx) {
		t.Error("a server that is stopped is not idle")
	}
}

// pipes accepts connections that nobody made.
type pipes struct{ net.Listener }

func (pipes) Accept() (net.Conn, error) {
	conn, _ := net.Pipe()
	return conn, nil
}

type wall struct{}

func (wall) Now() time.Time { return time.Now() }

func TestOpenReady_NoPipe(t *testing.T) {
	t.Parallel()
	for _, fd := range []int{-1, 0, 2, 1 << 20} {
		if _, err := daemon.OpenReady(fd); err == nil {
			t.Errorf("descriptor %d was taken", fd)
		}
	}
	var none *daemon.Ready
	none.Tell(nil) // tells nobody
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"version":"v1","protocol":1,"pid":12,"socket":"/a/pml.sock","started_at":"2026-01-01T00:00:00Z","background":true}`))
	f.Add([]byte(`{"pid":-1}`))
	f.Add([]byte(`{"socket":"relative"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, ok := daemon.ParseRecord(raw)
		if ok && (r.PID < 0 || r.Socket != "" && !filepath.IsAbs(r.Socket)) {
			t.Errorf("%q was taken as %+v", raw, r)
		}
	})
}

func FuzzHeard(f *testing.F) {
	f.Add(`{}`)
	f.Add(`{"error":{"error_code":"store_newer","error":"x"}}`)
	f.Add(``)
	f.Fuzz(func(t *testing.T, text string) {
		said, failed, err := daemon.Heard(strings.NewReader(text))
		if !said && failed != nil || said && err != nil {
			t.Errorf("%q: %v %v %v", text, said, failed, err)
		}
	})
}
