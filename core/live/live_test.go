package live_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/live"
	"github.com/casys-ai/pml/core/redact"
)

const run core.ID = "11111111-2222-4333-8444-555555555555"

type clock struct{}

func (clock) Now() time.Time { return time.Now() }

// offset is how many bytes the event says there were before it.
func offset(t *testing.T, e core.Event) int {
	t.Helper()
	if len(e.Data) == 0 {
		t.Error("an event without its place")
	}
	return core.PieceOf(e).Offset
}

// watched collects what a watcher is told; the reader is held up before each event until
// step lets it go on, where there is a step.
func watched(ctx context.Context, t *testing.T, texts *live.Texts, step <-chan struct{}) (all *[]core.Event, end <-chan error) {
	t.Helper()
	var got []core.Event
	done := make(chan error, 1)
	go func() {
		done <- texts.Watch(ctx, run, func(e core.Event) error {
			if step != nil {
				<-step
			}
			got = append(got, e)
			return nil
		})
	}()
	return &got, done
}

// TestTexts_Watch: a watcher gets the text from its beginning, though it comes late; a
// slow one gets together what it has missed, keeps nobody waiting, and a second attempt
// begins anew.
func TestTexts_Watch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		texts := live.NewTexts(clock{}, slog.New(slog.DiscardHandler))
		x := texts.Begin(run, "m1", redact.View{})
		x.Add("One ")
		x.Add("two ")
		step := make(chan struct{})
		slow, slowEnd := watched(ctx, t, texts, step)
		fast, fastEnd := watched(ctx, t, texts, nil)
		synctest.Wait()
		for i := range 100 {
			x.Add(fmt.Sprint(i, " "))
			synctest.Wait()
		}
		if n := len(*fast); n != 101 || (*fast)[0].Message != "One two " || offset(t, (*fast)[1]) != 8 || (*fast)[1].TaskID != "m1" || (*fast)[1].Seq != 0 {
			t.Errorf("%d events: %+v", n, (*fast)[:2])
		}
		step <- struct{}{}
		synctest.Wait()
		step <- struct{}{}
		synctest.Wait()
		if len(*slow) != 2 || !strings.HasPrefix((*slow)[1].Message, "0 1 2 ") || !strings.HasSuffix((*slow)[1].Message, " 99 ") {
			t.Errorf("the slow one got %+v", *slow)
		}
		x.End()
		x = texts.Begin(run, "m1", redact.View{})
		x.Add("Again")
		synctest.Wait()
		if e := (*fast)[len(*fast)-1]; e.Message != "Again" || offset(t, e) != 0 {
			t.Errorf("the second attempt begins with %+v", e)
		}
		x.End()
		cancel()
		close(step)
		if err := errors.Join(<-slowEnd, <-fastEnd); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// TestTexts_Redacted: a value is not shown, though it comes in two pieces, and what is
// kept back because it could be one comes at the end.
func TestTexts_Redacted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := redact.New(map[string]string{"KEY": "sk-live-0123456789"})
		texts := live.NewTexts(clock{}, slog.New(slog.DiscardHandler))
		x := texts.Begin(run, "m1", redact.NewView(r.String, r.JSON).Streaming(r.Open))
		got, end := watched(ctx, t, texts, nil)
		for _, piece := range []string{"It is sk-li", "ve-01234", "56789, not sk-live"} {
			x.Add(piece)
			synctest.Wait()
			for _, e := range *got {
				if strings.Contains(e.Message, "sk-") {
					t.Errorf("%q is shown", e.Message)
				}
			}
		}
		x.End()
		synctest.Wait()
		text := ""
		for _, e := range *got {
			if offset(t, e) != len(text) {
				t.Errorf("%d bytes were shown before %+v", len(text), e)
			}
			text += e.Message
		}
		if text != "It is «KEY», not sk-live" {
			t.Errorf("%q", text)
		}
		cancel()
		<-end
	})
}

// TestTexts_Bounded: of an answer without end some is shown, and nothing of it is held
// once it has ended.
func TestTexts_Bounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		texts := live.NewTexts(clock{}, slog.New(slog.DiscardHandler))
		x := texts.Begin(run, "m1", redact.View{})
		for range 1000 {
			x.Add(strings.Repeat("é", 5000))
		}
		got, end := watched(ctx, t, texts, nil)
		synctest.Wait()
		n := 0
		for _, e := range *got {
			n += len(e.Message)
			if len(e.Message) > 16<<10 || strings.ContainsRune(e.Message, '\uFFFD') {
				t.Errorf("an event of %d bytes", len(e.Message))
			}
		}
		if n < 200<<10 || n > 256<<10 {
			t.Errorf("%d bytes are shown", n)
		}
		x.End()
		cancel()
		<-end
		late, lateEnd := watched(canceled(t), t, texts, nil)
		<-lateEnd
		if len(*late) != 0 {
			t.Errorf("%d events of an answer that has ended", len(*late))
		}
	})
}

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// TestTexts_Cut: of an answer that is longer than what is shown the beginning is, without
// a gap in it.
func TestTexts_Cut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		texts := live.NewTexts(clock{}, slog.New(slog.DiscardHandler))
		x := texts.Begin(run, "m1", redact.View{})
		x.Add(strings.Repeat("a", 256<<10-4))
		x.Add("more than there is room for")
		x.Add("tail")
		got, end := watched(ctx, t, texts, nil)
		synctest.Wait()
		for _, e := range *got {
			if strings.Trim(e.Message, "a") != "" {
				t.Errorf("%q follows on what was left out", e.Message)
			}
		}
		cancel()
		<-end
	})
}

// TestTexts_Panics: a defect in what takes values out ends what one watcher sees, and not
// the process.
func TestTexts_Panics(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "live")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const runner = "22222222-2222-4333-8444-555555555555"
	texts := live.NewTexts(clock{}, slog.New(slog.DiscardHandler))
	if err := texts.Share(ctx, dir, runner); err != nil {
		t.Fatal(err)
	}
	texts.Begin(run, "m1", redact.NewView(func(string) string { panic("a defect") }, nil)).Add("Hello")
	if err := live.WatchOther(ctx, dir, runner, run, nil); err != nil {
		t.Error(err)
	}
}

// flaky is a listener of which the first connection fails.
type flaky struct {
	net.Listener
	failed bool
}

func (l *flaky) Accept() (net.Conn, error) {
	if !l.failed {
		l.failed = true
		return nil, errors.New("too many open files")
	}
	return l.Listener.Accept()
}

// TestTexts_Accept: a connection that fails does not end the others.
func TestTexts_Accept(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "live")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", filepath.Join(dir, "22222222-2222.sock"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	texts := live.NewTexts(clock{}, slog.New(slog.DiscardHandler))
	texts.Begin(run, "m1", redact.View{}).Add("Hello")
	ended := make(chan struct{})
	go func() {
		texts.Accept(ctx, &flaky{Listener: l})
		close(ended)
	}()
	enough := errors.New("enough")
	if err := live.WatchOther(ctx, dir, "22222222-2222-4333-8444-555555555555", run, func(core.Event) error { return enough }); !errors.Is(err, enough) {
		t.Error(err)
	}
	_ = l.Close()
	<-ended
}

// TestTexts_Share: another process watches by the name of the runner; sockets that
// killed processes have left are removed, and one that does not listen is no error.
func TestTexts_Share(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "live") // the path of a socket is bounded
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	left := filepath.Join(dir, "deaddeaddead.sock")
	leave(t, left)
	texts := live.NewTexts(clock{}, slog.New(slog.DiscardHandler))
	if err := texts.Share(ctx, dir, "22222222-2222-4333-8444-555555555555"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket that was left: %v", err)
	}
	x := texts.Begin(run, "m1", redact.View{})
	x.Add("Hello")
	events := make(chan core.Event)
	ended := make(chan error, 1)
	go func() {
		ended <- live.WatchOther(ctx, dir, "22222222-2222-4333-8444-555555555555", run, func(e core.Event) error {
			events <- e
			return nil
		})
	}()
	if e := <-events; e.Message != "Hello" || e.RunID != run || e.Type != core.EventAgentText {
		t.Errorf("%+v", e)
	}
	x.Add(" there")
	if e := <-events; e.Message != " there" || offset(t, e) != 5 {
		t.Errorf("%+v", e)
	}
	if err := live.WatchOther(ctx, dir, "33333333-2222-4333-8444-555555555555", run, nil); err != nil {
		t.Errorf("a process that is not there: %v", err)
	}
	cancel()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// leave leaves a socket at which nobody listens.
func leave(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestTexts_ShareAtOnce: processes that begin at the same time do not take each other's
// socket for one that was left.
func TestTexts_ShareAtOnce(t *testing.T) {
	t.Parallel()
	const processes = 8
	for range 30 {
		dir, err := os.MkdirTemp("", "live")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range processes {
			all.Go(func() {
				if err := live.NewTexts(clock{}, slog.New(slog.DiscardHandler)).Share(ctx, dir, fmt.Sprintf("%08d-2222-4333-8444-555555555555", i)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if left, _ := filepath.Glob(filepath.Join(dir, "*.sock")); len(left) != processes {
			t.Errorf("%d of %d sockets are left", len(left), processes)
		}
		cancel()
		_ = os.RemoveAll(dir)
	}
}
