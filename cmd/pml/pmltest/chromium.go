//go:build unix

package pmltest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
)

// Chromium is a real browser with one page, the size of a phone. It is spoken to over
// two pipes, in the protocol of its developer tools.
type Chromium struct {
	t       testing.TB
	to      *os.File
	session string

	mu      sync.Mutex
	n       int
	waiting map[int]chan devtools
}

// devtools is a message of the protocol, as far as these tests read it.
type devtools struct {
	ID     int             `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// NewChromium starts the browser of this machine, and ends the test where there is none.
func NewChromium(t testing.TB) *Chromium {
	t.Helper()
	path, err := lookBrowser()
	if err != nil {
		t.Skip("no Chromium here")
	}
	in, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	profile, err := os.MkdirTemp("", "pml-chromium-") // its own: a child of the browser may still write there
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(profile) })
	cmd := exec.Command(path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-pipe", "--user-data-dir="+profile)
	cmd.ExtraFiles = []*os.File{in, out}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = in.Close(), out.Close() // the browser has them
	b := &Chromium{t: t, to: to, waiting: map[int]chan devtools{}}
	var wg sync.WaitGroup
	wg.Go(func() { b.read(bufio.NewReader(from)) })
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		wg.Wait()
		_, _ = to.Close(), from.Close()
	})
	var made struct{ TargetID string }
	b.ask("Target.createTarget", map[string]any{"url": "about:blank"}, &made)
	var at struct{ SessionID string }
	b.ask("Target.attachToTarget", map[string]any{"targetId": made.TargetID, "flatten": true}, &at)
	b.session = at.SessionID
	b.ask("Page.enable", nil, nil)
	b.ask("Emulation.setDeviceMetricsOverride", map[string]any{"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": true}, nil)
	b.ask("Page.addScriptToEvaluateOnNewDocument", map[string]any{
		"source": `window.shift = 0; new PerformanceObserver(l => { for (const e of l.getEntries()) window.shift += e.value }).observe({type: "layout-shift", buffered: true})`,
	}, nil)
	return b
}

func lookBrowser() (path string, err error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err = exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", err
}

// read hands answers to who waits for them, until the browser has ended.
func (b *Chromium) read(r *bufio.Reader) {
	for {
		text, err := r.ReadBytes(0)
		var m devtools
		if err == nil {
			err = json.Unmarshal(text[:len(text)-1], &m)
		}
		b.mu.Lock()
		if c := b.waiting[m.ID]; c != nil && err == nil {
			delete(b.waiting, m.ID)
			c <- m
		}
		if err != nil {
			for _, c := range b.waiting {
				close(c)
			}
			b.waiting = nil
		}
		b.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// try sends a command and returns what it came to.
func (b *Chromium) try(method string, params any, into any) error {
	if params == nil {
		params = map[string]any{}
	}
	c := make(chan devtools, 1)
	b.mu.Lock()
	if b.waiting == nil {
		b.mu.Unlock()
		return errors.New("the browser has ended")
	}
	b.n++
	b.waiting[b.n] = c
	text, err := json.Marshal(map[string]any{"id": b.n, "method": method, "params": params, "sessionId": b.session})
	if b.session == "" {
		text, err = json.Marshal(map[string]any{"id": b.n, "method": method, "params": params})
	}
	if err == nil {
		_, err = b.to.Write(append(text, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return err
	}
	m, ok := <-c
	if !ok || m.Error != nil {
		return fmt.Errorf("%s: %s", method, m.Error)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(m.Result, into)
}

func (b *Chromium) ask(method string, params any, into any) {
	b.t.Helper()
	if err := b.try(method, params, into); err != nil {
		b.t.Fatal(err)
	}
}

// Open goes to an address.
func (b *Chromium) Open(url string) {
	b.t.Helper()
	b.ask("Page.navigate", map[string]any{"url": url}, nil)
}

// Eval is the value of an expression in the page, as JSON; nothing while the page is on
// its way elsewhere.
func (b *Chromium) Eval(expression string) string {
	var out struct {
		Result struct{ Value json.RawMessage }
	}
	if err := b.try("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "userGesture": true}, &out); err != nil {
		return ""
	}
	return string(out.Result.Value)
}

// Until waits until the page is all there, and an expression is true in it. Before that a
// form may lack its end, and what is there its style.
func (b *Chromium) Until(expression string) {
	b.t.Helper()
	WaitFor(b.t, expression, func() bool { return b.Eval(`document.readyState == "complete" && !!(`+expression+")") == "true" })
}
