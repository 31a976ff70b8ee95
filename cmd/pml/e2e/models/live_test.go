//go:build unix

package models_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
)

// slowly is a provider of Anthropic's protocol that writes each text that it is given when
// it is given it, and ends its answer with the channel.
func slowly(t *testing.T) (url string, pieces chan<- string) {
	t.Helper()
	texts := make(chan string)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or the end of the client is not noticed
		w.Header().Set("Content-Type", "text/event-stream")
		write := func(text string) {
			_, _ = io.WriteString(w, text)
			w.(http.Flusher).Flush()
		}
		write(answerBegins)
		for {
			select {
			case text, ok := <-texts:
				if !ok {
					write(answerEnds)
					return
				}
				quoted, _ := json.Marshal(text)
				write(fmt.Sprintf(answerText, strings.Trim(string(quoted), `"`)))
			case <-r.Context().Done():
				return
			}
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, texts
}

// TestAgent_Live: what a model writes is on the terminal of pml agent, in the tree of a pml
// tui beside it and among the lines of --events before the answer has ended, without the
// value of a key and without what acts on a terminal.
func TestAgent_Live(t *testing.T) {
	t.Parallel()
	url, pieces := slowly(t)
	m := agentMachine(t, aimock{t, url})
	const key = "sk-test-0123456789" // of agentMachine
	at := m.OnScreen(100, 30, m.Command(t.Context(), "agent", "say it slowly"))
	tui := m.OnScreen(100, 30, m.Command(t.Context(), "tui"))
	say := func(text string) {
		select {
		case pieces <- text:
		case <-t.Context().Done():
		}
	}
	say("The first piece, the key is " + key[:9])
	at.Shows("The first piece, the key is")
	tui.Shows("say it slowly")
	tui.Types("3", "z")
	tui.Shows("writes", "The first piece, the key is")
	say(key[9:] + ".\x1b]0;title\x07 The second one")
	for _, s := range []*pmltest.Emulator{at, tui} {
		if text := s.Shows("«KEY».", "The second one"); strings.Contains(text, key[:9]) {
			t.Errorf("the key is seen:\n%s", text)
		}
		if raw := s.Written(); strings.Contains(raw, "\x1b]0;title") || strings.Contains(raw, key) {
			t.Errorf("foreign text acts on the terminal, or a key is seen: %q", raw)
		}
	}
	close(pieces)
	at.Shows("1 answer, 0 tool calls")
	if code := at.End(); code != 0 {
		t.Errorf("exit %d", code)
	}
	if n := strings.Count(at.Written(), "The second one"); n != 1 {
		t.Errorf("what was written while it came is written %d times: %q", n, at.Written())
	}
	tui.Shows("✓ complete")
}

// TestAgent_Events: --events prints what happens as lines of JSON while it happens, and
// the result last.
func TestAgent_Events(t *testing.T) {
	t.Parallel()
	url, pieces := slowly(t)
	m := agentMachine(t, aimock{t, url})
	p := m.Start("agent", "say it", "--events")
	for _, piece := range []string{"one ", "two ", "three"} {
		pieces <- piece
	}
	close(pieces)
	out := p.Wait().Want(0)
	lines := strings.Split(strings.TrimSpace(out.Stdout), "\n")
	text, types := "", map[core.EventType]int{}
	for _, line := range lines[:len(lines)-1] {
		var e core.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		types[e.Type]++
		if e.Type == core.EventAgentText {
			text += e.Message
			if e.Seq != 0 || e.TaskID != "m1" {
				t.Errorf("%s", line)
			}
		}
	}
	var r struct {
		Status string           `json:"status"`
		Result core.AgentResult `json:"result"`
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r); err != nil || r.Result.Result != "one two three" {
		t.Errorf("the last line is no result: %s %v", lines[len(lines)-1], err)
	}
	if text != "one two three" || types[core.EventWorkflowStart] != 1 || types[core.EventAgentIteration] != 1 || types[core.EventWorkflowComplete] != 1 {
		t.Errorf("%q in %v:\n%s", text, types, out.Stdout)
	}
}
