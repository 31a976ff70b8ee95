//go:build unix

package models_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
)

// The events of an answer of Anthropic's protocol: its beginning, a piece of text, its end.
const (
	answerBegins = `data: {"type":"message_start","message":{"model":"m-1","usage":{"input_tokens":9,"output_tokens":1}}}` + "\n\n" +
		`data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n"
	answerText = `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%s"}}` + "\n\n"
	answerEnds = `data: {"type":"content_block_stop","index":0}` + "\n\n" +
		`data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}` + "\n\n" + `data: {"type":"message_stop"}` + "\n\n"
)

// TestAgent_Chaos: what a provider gets wrong once, an agent gets over, with one request
// more; what does not pass ends it with one error that says what to do.
func TestAgent_Chaos(t *testing.T) {
	t.Parallel()
	status := func(n int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(n)
		}
	}
	stream := func(text string, after func(r *http.Request)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, text) // the client may have had enough
			w.(http.Flusher).Flush()
			after(r)
		}
	}
	nothing := func(*http.Request) {}
	for name, tt := range map[string]struct {
		first http.HandlerFunc
		fails core.Code // empty: the agent goes on
		says  string
		exit  int
		after time.Duration // how long the provider is left alone at least
	}{
		"RetryAfter":    {first: status(429, "Retry-After", "4"), after: 4 * time.Second}, // pml by itself waits a second or so
		"Overloaded":    {first: status(529)},
		"Disconnect":    {first: stream(answerBegins+fmt.Sprintf(answerText, "half"), func(*http.Request) { panic(http.ErrAbortHandler) })},
		"Malformed":     {first: stream(answerBegins+"data: {\"type\":\"content_blo\n\n", nothing)},
		"SlowFirstByte": {first: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
		"TenMegabytes":  {first: stream(answerBegins+strings.Repeat(fmt.Sprintf(answerText, strings.Repeat("x", 1<<20)), 10)+answerEnds, nothing), fails: core.CodeResultTooLarge, says: "ask for less", exit: 1},
		"RefusedKey":    {first: status(401), fails: core.CodeModelKeyRefused, says: "check the key", exit: 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int32
			var last atomic.Int64 // when the last answer was over
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // or the end of the client is not noticed
				if requests.Add(1) == 1 {
					defer func() { last.Store(time.Now().UnixNano()) }()
					tt.first(w, r)
					return
				}
				if alone := time.Since(time.Unix(0, last.Load())); alone < tt.after {
					t.Errorf("it is asked again after %s, and wants %s", alone, tt.after)
				}
				stream(answerBegins+fmt.Sprintf(answerText, "done")+answerEnds, nothing)(w, r)
			}))
			t.Cleanup(s.Close)
			m := pmltest.BareMachine(t)
			m.Setenv("KEY", "sk-test-0123456789")
			if err := os.MkdirAll(m.Home, 0o700); err != nil {
				t.Fatal(err)
			}
			silence := "1m"
			if name == "SlowFirstByte" {
				silence = "5s"
			}
			config := fmt.Sprintf(`{"permissions": {"allow": ["pml:model/*"]}, "models": {"m": {"protocol": "anthropic", "model": "m-1", "base_url": %q, "api_key": "${KEY}", "timeout": %q}}}`, s.URL, silence)
			if err := os.WriteFile(filepath.Join(m.Home, "config.json"), []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
			if tt.fails != "" {
				f := m.PML("agent", "say it", "--model", "m", "--json").Want(tt.exit).Fault()
				if f.Code != tt.fails || !strings.Contains(f.Message, tt.says) || requests.Load() != 1 {
					t.Errorf("%d requests: %+v", requests.Load(), f)
				}
				return
			}
			out := agentOf(t, m.JSON(0, "agent", "say it", "--model", "m").Result)
			if !out.Success || out.Result != "done" || out.Iterations != 1 || requests.Load() != 2 {
				t.Errorf("%d requests: %+v", requests.Load(), out)
			}
		})
	}
}
