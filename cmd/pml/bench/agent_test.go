//go:build unix

package bench_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
)

// provider is a provider of models that answers at once: scripts that call nothing, and an
// end after a number of them. It notes how long the next request has kept it waiting.
type provider struct {
	iterations int
	hold       <-chan struct{} // requests are answered when it is closed
	came       chan struct{}

	mu     sync.Mutex
	sent   time.Time // when the last answer was
	gaps   []float64 // ms from an answer to the next request
	bodies [][]byte
}

const (
	agentBegins = `data: {"type":"message_start","message":{"model":"m-1","usage":{"input_tokens":9,"output_tokens":1}}}` + "\n\n"
	agentEnds   = `data: {"type":"message_delta","delta":{"stop_reason":%q},"usage":{"output_tokens":2}}` + "\n\n" + `data: {"type":"message_stop"}` + "\n\n"
)

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	p.mu.Lock()
	if !p.sent.IsZero() {
		p.gaps = append(p.gaps, time.Since(p.sent).Seconds()*1000)
	}
	p.bodies = append(p.bodies, body)
	p.mu.Unlock()
	if p.hold != nil {
		p.came <- struct{}{}
		select {
		case <-p.hold:
		case <-r.Context().Done():
			return
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	n := bytes.Count(body, []byte(`"role":"assistant"`))
	block, stop := `{"type":"text","text":"done"}`, "end_turn"
	if n < p.iterations {
		block, stop = fmt.Sprintf(`{"type":"tool_use","id":"t%d","name":"pml_execute","input":{"intent":"step","code":"return %d"}}`, n, n), "tool_use"
	}
	fmt.Fprintf(w, agentBegins+`data: {"type":"content_block_start","index":0,"content_block":%s}`+"\n\n"+`data: {"type":"content_block_stop","index":0}`+"\n\n"+agentEnds, block, stop)
	p.mu.Lock()
	p.sent = time.Now()
	p.mu.Unlock()
}

// agentHome is a home whose model is at a URL, and the environment of a pml there.
func agentHome(b *testing.B, url string) (home, ws string, environ []string) {
	b.Helper()
	home, ws = b.TempDir(), b.TempDir()
	config := fmt.Sprintf(`{"permissions": {"allow": ["pml:model/*"]}, "models": {"m": {"protocol": "anthropic", "model": "m-1", "base_url": %q}}}`, url)
	if err := os.WriteFile(filepath.Join(home, "config.json"), []byte(config), 0o600); err != nil {
		b.Fatal(err)
	}
	return home, ws, []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "PML_HOME=" + home, "PML_NO_AUTOSTART=1", "TERM=xterm-256color", "LANG=C.UTF-8"}
}

// BenchmarkAgent_Iteration is what pml adds to an iteration of an agent whose model answers
// at once and whose scripts call nothing: the time from the end of an answer to the next
// request, and beside it that of a bare client that sends the same requests.
//
//	go test -run '^$' -bench Agent -benchtime 5x ./cmd/pml/bench
func BenchmarkAgent_Iteration(b *testing.B) {
	pml := buildBench(b, "./cmd/pml")
	var iteration, floor []float64
	for b.Loop() {
		p := &provider{iterations: 20}
		s := httptest.NewServer(p)
		_, ws, environ := agentHome(b, s.URL)
		cmd := exec.Command(pml, "agent", "count", "--allow", "none:*", "--max-iterations", "50", "--json")
		cmd.Dir, cmd.Env = ws, environ
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		iteration = append(iteration, p.gaps...)
		bodies := p.bodies
		p.sent, p.gaps = time.Time{}, nil
		for _, body := range bodies {
			resp, err := http.Post(s.URL+"/v1/messages", "application/json", bytes.NewReader(body))
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body) // the answer is known
			resp.Body.Close()
		}
		floor = append(floor, p.gaps...)
		s.Close()
	}
	slices.Sort(iteration)
	slices.Sort(floor)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(iteration[len(iteration)/2], "iteration-p50-ms")
	b.ReportMetric(iteration[len(iteration)*99/100], "iteration-p99-ms")
	b.ReportMetric(floor[len(floor)/2], "floor-p50-ms")
}

// BenchmarkAgent_Text is the time from a piece of text that a provider sends until its
// last byte is on the terminal of pml agent, and beside it until a bare client has it.
func BenchmarkAgent_Text(b *testing.B) {
	pml := buildBench(b, "./cmd/pml")
	pieces := make(chan string)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // what is asked is known
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, agentBegins+`data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`+"\n\n")
		w.(http.Flusher).Flush()
		for text := range pieces {
			fmt.Fprintf(w, `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%q}}`+"\n\n", text)
			w.(http.Flusher).Flush()
		}
		fmt.Fprintf(w, `data: {"type":"content_block_stop","index":0}`+"\n\n"+agentEnds, "end_turn")
	}))
	b.Cleanup(s.Close)
	_, ws, environ := agentHome(b, s.URL)
	cmd := exec.Command(pml, "agent", "say it", "--allow", "none:*")
	cmd.Dir, cmd.Env = ws, environ
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: 100, Rows: 30})
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	pieceTo := func(at io.Reader) float64 {
		text, read, seen := fmt.Sprintf("<piece %d> ", n), make([]byte, 64<<10), ""
		n++
		begin := time.Now()
		pieces <- text
		for !strings.Contains(seen, strings.Trim(text, "<> ")) {
			k, err := at.Read(read)
			if err != nil {
				b.Fatal(err)
			}
			seen += string(read[:k])
		}
		return time.Since(begin).Seconds() * 1000
	}
	pieceTo(tty) // waits for the process to start
	var took, floor []float64
	for b.Loop() {
		took = append(took, pieceTo(tty))
	}
	close(pieces)
	_, _ = io.Copy(io.Discard, tty) // until it ends
	_ = cmd.Wait()
	pieces = make(chan string)
	resp, err := http.Post(s.URL+"/v1/messages", "application/json", strings.NewReader("{}"))
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	for range took {
		floor = append(floor, pieceTo(resp.Body))
	}
	close(pieces)
	slices.Sort(took)
	slices.Sort(floor)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(took[len(took)/2], "p50-ms")
	b.ReportMetric(took[len(took)*99/100], "p99-ms")
	b.ReportMetric(floor[len(floor)/2], "floor-p50-ms")
}

// BenchmarkAgent_Waiting is the memory of a server in which 100 agents wait for their
// model.
func BenchmarkAgent_Waiting(b *testing.B) {
	const agents = 100
	pml := buildBench(b, "./cmd/pml")
	hold := make(chan struct{})
	p := &provider{hold: hold, came: make(chan struct{}, agents)}
	s := httptest.NewServer(p)
	b.Cleanup(s.Close)
	home, ws, environ := agentHome(b, s.URL)
	ctx, stop := context.WithCancel(context.Background())
	server := exec.CommandContext(ctx, pml, "serve")
	server.Dir, server.Env = ws, environ
	if err := server.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		stop()
		_ = server.Wait() // it was killed
	})
	socket := filepath.Join(home, "pml.sock")
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	for {
		if conn, err := net.Dial("unix", socket); err == nil {
			conn.Close()
			break
		}
		<-time.After(20 * time.Millisecond) // it starts
	}
	begin := func(n int) {
		body := fmt.Sprintf(`{"agent": {"goal": "wait %d", "allowed_tools": []}, "options": {"detach": true}}`, n)
		resp, err := client.Post("http://pml/api/v1/workflows", "application/json", strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		defer resp.Body.Close()
		if text, _ := io.ReadAll(resp.Body); resp.StatusCode >= 300 {
			b.Fatalf("%s %s", resp.Status, text)
		}
		<-p.came
	}
	resident := func() float64 { return (&served{b: b, cmd: server}).resident() }
	for b.Loop() {
		begin(0)
		b.ReportMetric(resident(), "MiB-with-one")
		for n := 1; n < agents; n++ {
			begin(n)
		}
		b.ReportMetric(resident(), "MiB")
	}
	b.ReportMetric(0, "ns/op")
	close(hold)
}
