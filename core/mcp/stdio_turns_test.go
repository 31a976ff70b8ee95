package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/casys-ai/pml/core/api"
)

// Goroutines that wait for their turn end with the service, although the client
// keeps its side open and sends one more message that nobody takes.
func TestStdio_NobodyIsLeftIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{t: t, execute: func(context.Context, api.ExecuteRequest) (api.Result, error) {
			return api.Result{Status: api.StatusSuccess, WorkflowID: runID}, nil
		}}
		ctx, cancel := context.WithCancel(t.Context())
		in, hold := io.Pipe()
		done := make(chan error, 1)
		go func() { done <- newEdge(t, f, nil).ServeStdio(ctx, in, io.Discard) }()
		for i := range 4 {
			_, _ = io.WriteString(hold, callLine(strconv.Itoa(i), "execute", `{"code":"1"}`, "")+"\n")
			synctest.Wait()
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(hold, callLine("5", "execute", `{"code":"1"}`, "")+"\n")
		synctest.Wait()
		_ = hold.Close() // a goroutine that stays is a deadlock to synctest
	})
}

// failing gives a line and an error at once, and then nothing until it is closed.
type failing struct {
	line string
	then chan struct{}
}

var errBroken = errors.New("the pipe broke")

func (f *failing) Read(p []byte) (int, error) {
	if f.line == "" {
		<-f.then
		return 0, io.EOF
	}
	n := copy(p, f.line)
	f.line = ""
	return n, errBroken
}

// A line that comes with an error is answered, and the error ends the service.
func TestStdio_LineWithError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{t: t, execute: func(context.Context, api.ExecuteRequest) (api.Result, error) {
			return api.Result{Status: api.StatusSuccess, WorkflowID: runID}, nil
		}}
		in := &failing{line: callLine("1", "execute", `{"code":"1"}`, ""), then: make(chan struct{})}
		done := make(chan error, 1)
		go func() { done <- newEdge(t, f, nil).ServeStdio(t.Context(), in, io.Discard) }()
		synctest.Wait()
		select {
		case err := <-done:
			if !errors.Is(err, errBroken) {
				t.Errorf("ended with %v", err)
			}
		default:
			t.Error("the error was lost, and the service reads on")
			close(in.then)
			t.Log(<-done)
		}
	})
}

// A cancel that comes right behind its request cancels it.
func TestStdio_CancelRightBehind(t *testing.T) {
	t.Parallel()
	f, _, ended, let := blocking(t)
	w := dial(t, newEdge(t, f, nil))
	const n = 900
	for i := range n {
		id := strconv.Itoa(i)
		w.send(callLine(id, "execute", `{"code":"1"}`, "") + "\n" + `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
	}
	w.send(`{"jsonrpc":"2.0","id":"p","method":"ping"}`)
	w.next()
	close(let)
	_ = w.in.Close()
	<-w.done
	w.done <- nil
	missed := 0
	for m := range w.lines {
		if m.Error == nil {
			missed++
		}
	}
	close(ended)
	if missed > 0 {
		t.Errorf("%d of %d were not cancelled", missed, n)
	}
}

// Every request is answered once, whoever reads it, however the bytes arrive and
// whether calls panic; what takes no time is answered in order.
func TestStdio_AllAnswered(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader, "end with data": iotest.DataErrReader,
	} {
		for _, n := range []int{1, 2, 3, 50, 120} {
			var calls atomic.Int32
			f := &fake{t: t, execute: func(context.Context, api.ExecuteRequest) (api.Result, error) {
				if calls.Add(1)%17 == 0 {
					panic("a call that panics")
				}
				return api.Result{Status: api.StatusSuccess, WorkflowID: runID}, nil
			}}
			var in []string
			for i := range n {
				if i%3 == 0 {
					in = append(in, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i))
				} else {
					in = append(in, callLine(strconv.Itoa(i), "execute", `{"code":"1"}`, ""))
				}
			}
			var out bytes.Buffer // written by one at a time
			if err := newEdge(t, f, nil).ServeStdio(t.Context(), wrap(strings.NewReader(strings.Join(in, "\n"))), &out); err != nil {
				t.Error(err)
			}
			answered, last := map[int]bool{}, -1
			for line := range strings.Lines(out.String()) {
				var m struct{ ID int }
				if err := json.Unmarshal([]byte(line), &m); err != nil || answered[m.ID] {
					t.Fatalf("%s: %s, %v", name, line, err)
				}
				answered[m.ID] = true
				if m.ID%3 == 0 {
					if m.ID < last {
						t.Errorf("%s: %d is answered behind %d", name, m.ID, last)
					}
					last = m.ID
				}
			}
			if len(answered) != n {
				t.Errorf("%s: %d of %d are answered", name, len(answered), n)
			}
		}
	}
}

// thrower is a client's end with which pml panics.
type thrower struct{}

func (thrower) Write([]byte) (int, error) { panic("the writer is broken") }

// A panic while messages are read or answered ends the service with an error, and
// nothing else.
func TestStdio_Panics(t *testing.T) {
	t.Parallel()
	for _, line := range []string{`{"jsonrpc":"2.0","id":1,"method":"ping"}`, callLine("1", "execute", `{"code":"1"}`, "")} {
		f := &fake{t: t, execute: func(context.Context, api.ExecuteRequest) (api.Result, error) {
			return api.Result{Status: api.StatusSuccess, WorkflowID: runID}, nil
		}}
		in, hold := io.Pipe()
		done := make(chan error, 1)
		go func() { done <- newEdge(t, f, nil).ServeStdio(t.Context(), in, thrower{}) }()
		_, _ = io.WriteString(hold, line+"\n")
		if err := <-done; err == nil {
			t.Error("it has ended as if all was well")
		}
		_ = hold.Close()
	}
}
