//go:build unix

package bench_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
)

// BenchmarkTerminal is pml tui at 160 x 45 beside a server that has kept 9,000
// finished workflows and 1,000 that wait, each with its events: the time from
// the start of the process to the first frame and to all of it, what it takes of
// memory then, and of a processor while nothing but the clock moves; and the time
// from a key, when its byte is written into the terminal, to the last byte of the
// frame that shows what it did.
//
//	go test -run '^$' -bench Terminal -benchtime 3x ./cmd/pml/bench
func BenchmarkTerminal(b *testing.B) {
	s := newServed(b, buildBench(b, "./cmd/pml"), "")
	s.fill(9_000, 1000)
	s.start()
	var first, all, mib, idle float64
	var keys []float64
	for b.Loop() {
		begin := time.Now()
		t := s.terminal()
		t.until("Runs")
		first += time.Since(begin).Seconds() * 1000
		t.until("1000 approvals waiting", "done 9000")
		all += time.Since(begin).Seconds() * 1000
		used, window := t.cpu(), time.NewTimer(5*time.Second)
		<-window.C // what is measured
		idle += (t.cpu() - used) / 5 * 100
		mib += t.resident()
		for i := range 200 {
			keys = append(keys, t.key("jjjjjjjjkkkkkkkk"[i%16]))
		}
		t.stop()
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(first/float64(b.N), "first-frame-ms")
	b.ReportMetric(all/float64(b.N), "all-ms")
	b.ReportMetric(mib/float64(b.N), "MiB")
	b.ReportMetric(idle/float64(b.N), "idle-%")
	slices.Sort(keys)
	b.ReportMetric(keys[len(keys)/2], "key-p50-ms")
	b.ReportMetric(keys[len(keys)*99/100], "key-p99-ms")
}

// shown is a pml tui and what its terminal shows.
type shown struct {
	b    *testing.B
	cmd  *exec.Cmd
	tty  *os.File
	term vt10x.Terminal
	text chan string // what is shown, after each write

	frames chan time.Time // when the last byte of a frame came; nobody has to look
}

func (s *served) terminal() *shown {
	s.b.Helper()
	t := &shown{b: s.b, term: vt10x.New(vt10x.WithSize(160, 45), vt10x.WithWriter(io.Discard)), text: make(chan string, 1), frames: make(chan time.Time, 1)}
	t.cmd = exec.Command(s.pml, "tui")
	t.cmd.Dir, t.cmd.Env = s.ws, append(s.env, "TERM=xterm-256color", "LANG=C.UTF-8")
	var err error
	if t.tty, err = pty.StartWithSize(t.cmd, &pty.Winsize{Cols: 160, Rows: 45}); err != nil {
		s.b.Fatal(err)
	}
	go func() {
		defer close(t.text)
		chunk := make([]byte, 64<<10)
		for {
			n, err := t.tty.Read(chunk)
			if now := time.Now(); bytes.HasSuffix(chunk[:n], []byte("\x1b[?2026l")) {
				select {
				case t.frames <- now:
				default:
				}
			}
			if _, werr := t.term.Write(chunk[:n]); err != nil || werr != nil {
				return
			}
			select {
			case <-t.text: // nobody has looked at it
			default:
			}
			t.text <- t.term.String()
		}
	}()
	return t
}

// key presses a key at any time of a second, and returns how long its frame took,
// in milliseconds.
func (t *shown) key(k byte) float64 {
	t.b.Helper()
	<-time.After(20*time.Millisecond + rand.N(20*time.Millisecond))
	select {
	case <-t.frames: // of the clock
	default:
	}
	begin := time.Now()
	if _, err := t.tty.Write([]byte{k}); err != nil {
		t.b.Fatal(err)
	}
	select {
	case at := <-t.frames:
		return at.Sub(begin).Seconds() * 1000
	case <-time.After(time.Minute):
		t.b.Fatalf("the key %q changed nothing", k)
		return 0
	}
}

// until waits until the terminal shows texts.
func (t *shown) until(texts ...string) {
	t.b.Helper()
	hangs := time.After(time.Minute)
	for last := ""; ; {
		select {
		case text, ok := <-t.text:
			if !ok {
				t.b.Fatalf("it ended, and never showed %q:\n%s", texts, last)
			}
			last = text
		case <-hangs:
			t.b.Fatalf("it never showed %q:\n%s", texts, last)
		}
		all := true
		for _, want := range texts {
			all = all && strings.Contains(last, want)
		}
		if all {
			return
		}
	}
}

// cpu is the processor time that the process has used, in seconds.
func (t *shown) cpu() float64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", t.cmd.Process.Pid))
	if err != nil {
		return 0 // not Linux
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	f := strings.Fields(rest)
	user, _ := strconv.ParseFloat(f[11], 64)
	system, _ := strconv.ParseFloat(f[12], 64)
	return (user + system) / 100 // ticks of a hundredth
}

func (t *shown) resident() float64 { return (&served{cmd: t.cmd}).resident() }

func (t *shown) stop() {
	t.b.Helper()
	_, _ = t.tty.WriteString("\x03")
	for range t.text {
	}
	_ = t.cmd.Wait()
	_ = t.tty.Close()
}
