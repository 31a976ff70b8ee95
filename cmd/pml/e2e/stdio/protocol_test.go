//go:build unix

package stdio_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
)

// wire is a pml stdio whose bytes are looked at.
type wire struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	err pmltest.Buffer
}

// message is what pml has written: one line.
type message struct {
	JSONRPC string
	ID      json.RawMessage
	Method  string
	Params  json.RawMessage
	Result  json.RawMessage
	Error   *struct {
		Code    int
		Message string
		Data    json.RawMessage
	}
}

// openWire starts pml stdio.
func openWire(m *pmltest.Machine) *wire {
	m.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), pmltest.Patience)
	m.T.Cleanup(cancel)
	return wireTo(m.T, m.Command(ctx, "stdio"))
}

// wireTo starts what speaks on its stdio.
func wireTo(t testing.TB, cmd *exec.Cmd) *wire {
	t.Helper()
	w := &wire{t: t, cmd: cmd}
	w.cmd.Stderr = &w.err
	var err error
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	w.out = bufio.NewReader(out)
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.cmd.Process.Kill(); _ = w.cmd.Wait() }) // most have ended
	return w
}

func (w *wire) write(text string) {
	w.t.Helper()
	if _, err := io.WriteString(w.in, text); err != nil {
		w.t.Fatalf("%v: %s", err, w.err.String())
	}
}

// next is the next line of stdout, and ok is false at its end. A line that is
// no message of JSON-RPC fails the test.
func (w *wire) next() (m message, ok bool) {
	w.t.Helper()
	line, err := w.out.ReadBytes('\n')
	if len(line) == 0 && err != nil {
		return m, false
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	if bad := dec.Decode(&m); err != nil || bad != nil || m.JSONRPC != "2.0" || m.Method == "" && m.Result == nil && m.Error == nil || dec.More() {
		w.t.Fatalf("stdout has %.300q (%v)", line, err)
	}
	return m, true
}

// until reads up to the answer with an id, and returns what came before, too.
func (w *wire) until(id string) (all []message) {
	w.t.Helper()
	for {
		m, ok := w.next()
		if !ok {
			w.t.Fatalf("no answer to %s: %s", id, w.err.String())
		}
		all = append(all, m)
		if string(m.ID) == id && m.Method == "" {
			return all
		}
	}
}

// rest reads stdout to its end and returns what pml exited with.
func (w *wire) rest() (all []message, exit int) {
	w.t.Helper()
	for {
		m, ok := w.next()
		if !ok {
			_ = w.cmd.Wait() // the code says it
			return all, w.cmd.ProcessState.ExitCode()
		}
		all = append(all, m)
	}
}

const (
	hello = `{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"w","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
`
	still = `{"jsonrpc":"2.0","id":"still","method":"ping"}` + "\n"
)

func executing(id int, code string) string {
	raw, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": map[string]any{
		"name": "execute", "arguments": map[string]any{"code": code}, "_meta": map[string]any{"progressToken": id},
	}})
	if err != nil {
		panic(err) // strings and numbers
	}
	return string(raw) + "\n"
}

// TestStdio_OnlyMessages: stdout has nothing but messages, whatever scripts and
// servers print, with all logs on, and when pml dies of a signal that prints
// every stack.
func TestStdio_OnlyMessages(t *testing.T) {
	t.Parallel()
	c := pmltest.AllowRec()
	c.Permissions["allow"] = []string{"rec:*", "loud:*"}
	m := pmltest.BareMachine(t)
	loud := `echo starting; echo '{"not":"a message"}'; printf 'no end of line'; echo on stderr >&2; echo; exec "$1" --name loud --log "$2"`
	c.Servers = map[string]map[string]any{"loud": {"command": "/bin/sh", "args": []string{m.Write("loud.sh", loud), pmltest.Recorder(t), filepath.Join(m.Dir, "loud.jsonl")}}}
	m.Configure(c)
	m.Setenv("PML_LOG", "debug")
	w := openWire(m)
	w.write(hello)
	w.until(`"hello"`)
	w.write(executing(1, `
		console.log("printed"); console.error("printed"); console.log("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}");
		const a = await mcp.rec.noise({text: "n"}); const b = await mcp.loud.noise({text: "l"}); return [a, b]`))
	all := w.until(`1`)
	if last := all[len(all)-1]; !strings.Contains(string(last.Result), `after noise: l`) || !strings.Contains(string(last.Result), `after noise: n`) {
		t.Errorf("%s %v", last.Result, last.Error)
	}
	w.write(executing(2, `console.log("printed again"); throw new Error("thrown")`))
	if all := w.until(`2`); !strings.Contains(string(all[len(all)-1].Result), "thrown") {
		t.Errorf("%s", all[len(all)-1].Result)
	}
	if !strings.Contains(strings.ToLower(w.err.String()), "debug") {
		t.Errorf("nothing of what PML_LOG=debug asks for: %q", w.err.String())
	}
	w.write(executing(3, `await mcp.rec.slow({ms: 600000})`))
	pmltest.WaitFor(t, "a call runs", func() bool { return m.Count("slow") > 0 })
	if err := w.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	if _, exit := w.rest(); exit != 2 || !strings.Contains(w.err.String(), "goroutine ") {
		t.Errorf("exit %d: %.300s", exit, w.err.String())
	}
}

// TestStdio_BadInput: what is no message gets an error or is passed over; the
// next message is answered, and the end of stdin ends pml well.
func TestStdio_BadInput(t *testing.T) {
	t.Parallel()
	const (
		parse, request, params, unsupported = -32700, -32600, -32602, -32022
		none                                = 0
	)
	modern := func(version string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":5,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"%s","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"w","version":"1"}}}}`, version)
	}
	tests := map[string]struct {
		text string
		code int // of the one error that is answered; none: nothing is
	}{
		"words":                     {"hello pml\n", parse},
		"empty lines":               {"\n\r\n \n", none},
		"NUL bytes":                 {"\x00\x00\x00\n", parse},
		"NUL within a message":      {"{\"jsonrpc\":\"2.0\",\x00\"id\":5,\"method\":\"ping\"}\n", parse},
		"bytes that are no text":    {"\xff\xfe\x80\n", parse},
		"20 MB":                     {`{"jsonrpc":"2.0","id":5,"method":"ping","params":{"x":"` + strings.Repeat("x", 20<<20) + "\"}}\n", request},
		"20 MB of nothing":          {strings.Repeat(" ", 20<<20) + "\n", request},
		"half a message":            {`{"jsonrpc":"2.0","id":5,"met` + "\n", parse},
		"two messages in a line":    {`{"jsonrpc":"2.0","id":5,"method":"ping"}{"jsonrpc":"2.0","id":6,"method":"ping"}` + "\n", parse},
		"a batch":                   {`[{"jsonrpc":"2.0","id":5,"method":"ping"},{"jsonrpc":"2.0","id":6,"method":"ping"}]` + "\n", request},
		"an empty batch":            {"[]\n", request},
		"a number":                  {"7\n", request},
		"null":                      {"null\n", request},
		"another JSON-RPC":          {`{"jsonrpc":"1.0","id":5,"method":"ping"}` + "\n", request},
		"no JSON-RPC":               {`{"id":5,"method":"ping"}` + "\n", request},
		"no method":                 {`{"jsonrpc":"2.0","id":5}` + "\n", request},
		"a method that is a number": {`{"jsonrpc":"2.0","id":5,"method":5}` + "\n", request},
		"an id that is an object":   {`{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}` + "\n", request},
		"deep":                      {strings.Repeat("[", 1<<20) + "\n", params},
		"an answer to nothing":      {`{"jsonrpc":"2.0","id":77,"result":{}}` + "\n", none},
		"a cancel of nothing":       {`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}` + "\n", none},
		"an unknown notification":   {`{"jsonrpc":"2.0","method":"notifications/of/nothing"}` + "\n", none},
		"arguments that are a list": {`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"execute","arguments":[1]}}` + "\n", params},
		"a revision of the future":  {modern("2099-01-01") + "\n", unsupported},
		"a revision of the past":    {modern("1999-01-01") + "\n", unsupported},
		"a revision that hides":     {modern(`2025\u001b[2J\u202e`) + "\n", unsupported},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := openWire(pmltest.BareMachine(t))
			w.write(hello + tt.text + still)
			w.until(`"hello"`)
			all := w.until(`"still"`)
			_ = w.in.Close()
			more, exit := w.rest() // an answer that takes a while may be the last
			all = append(all[:len(all)-1], more...)
			if exit != 0 {
				t.Errorf("exit %d: %s", exit, w.err.String())
			}
			if tt.code == none {
				if len(all) != 0 {
					t.Errorf("answered %.500s %+v", all[0].Result, all[0].Error)
				}
				return
			}
			if len(all) != 1 || all[0].Error == nil {
				t.Fatalf("%d answers, the first without an error", len(all))
			}
			if e := all[0].Error; e.Code != tt.code || e.Message == "" || len(e.Message) > 1000 || strings.Contains(e.Message, "\x1b") {
				t.Errorf("error %d %.1200q, want %d", e.Code, e.Message, tt.code)
			}
		})
	}
}

// TestStdio_Versions: a host that names no revision that there is gets one that
// there is; it may leave then.
func TestStdio_Versions(t *testing.T) {
	t.Parallel()
	for _, wish := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "1999-01-01", "2099-01-01", "2026-07-28", "no date"} {
		t.Run(wish, func(t *testing.T) {
			t.Parallel()
			w := openWire(pmltest.BareMachine(t))
			w.write(strings.Replace(hello, "2025-06-18", wish, 1))
			all := w.until(`"hello"`)
			var got struct{ ProtocolVersion string }
			if err := json.Unmarshal(all[len(all)-1].Result, &got); err != nil {
				t.Fatal(err)
			}
			want := oldRevision
			if wish >= "2024" && wish < oldRevision {
				want = wish
			}
			if got.ProtocolVersion != want {
				t.Errorf("%q is answered with %q, want %q", wish, got.ProtocolVersion, want)
			}
			_ = w.in.Close()
			if _, exit := w.rest(); exit != 0 {
				t.Errorf("exit %d", exit)
			}
		})
	}
}

// TestStdio_Ends: pml ends well where its input ends, at whatever point, and
// when nobody reads its output any more.
func TestStdio_Ends(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"at once":                "",
		"after half a line":      hello + `{"jsonrpc":"2.0","id":5,"method":"pi`,
		"after a line of spaces": "   ",
		"in a string":            hello + `{"jsonrpc":"2.0","id":5,"method":"` + strings.Repeat("x", 9<<20),
		"after a whole message":  hello + strings.TrimSpace(still),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := openWire(pmltest.BareMachine(t))
			w.write(text)
			_ = w.in.Close()
			all, exit := w.rest()
			if exit != 0 {
				t.Errorf("exit %d: %s", exit, w.err.String())
			}
			answered := false
			for _, m := range all {
				answered = answered || string(m.ID) == `"still"`
			}
			if strings.Contains(text, "still") && !answered {
				t.Errorf("the last message has no answer: %+v", all)
			}
		})
	}
	t.Run("with nobody who reads", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(context.Background(), pmltest.Patience)
		defer cancel()
		cmd := pmltest.BareMachine(t).Command(ctx, "stdio")
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
		_ = out.Close()
		_, _ = io.WriteString(in, hello+executing(1, `return 1`)) // it may be gone
		_ = in.Close()                                            // it may be gone
		_ = cmd.Wait()
		if ctx.Err() != nil {
			t.Error("it does not end")
		}
	})
}

// TestStdio_OutputEnds: a host that closes stdout, and nothing else, is gone: a
// call that is under way has its time, and pml ends as it does when stdin ends.
func TestStdio_OutputEnds(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	ctx, cancel := context.WithTimeout(context.Background(), pmltest.Patience)
	defer cancel()
	cmd := m.Command(ctx, "stdio")
	var said pmltest.Buffer
	cmd.Stderr = &said
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
	t.Cleanup(func() { _ = in.Close() })
	write := func(text string) {
		if _, err := io.WriteString(in, text); err != nil {
			t.Fatal(err)
		}
	}
	write(hello + executing(1, `const a = await mcp.rec.inc({key: "a"}); await mcp.rec.slow({ms: 600000, value: 1}); return a.count`))
	pmltest.WaitFor(t, "the call to run", func() bool { return m.Count("slow") > 0 })
	_ = out.Close()
	write(still)
	_ = cmd.Wait() // the state says how
	if code := cmd.ProcessState.ExitCode(); code != 0 || ctx.Err() != nil {
		t.Errorf("%v: %s", cmd.ProcessState, said.String())
	}
	if w := m.Latest(); w.State != core.RunInterrupted {
		t.Errorf("the run is %s", w.State)
	}
}
