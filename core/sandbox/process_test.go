package sandbox_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/sandbox"
	"github.com/casys-ai/pml/core/skiptest"
)

// badChild plays a child that does not keep to the protocol.
func badChild(kind string) {
	in := bufio.NewReader(os.Stdin)
	if kind == "dies-idle" {
		os.Exit(3)
	}
	_, _ = in.ReadString('\n')
	switch kind {
	case "garbage":
		fmt.Println("hello, I am not JSON")
	case "wrong-kind":
		fmt.Println(`{"kind":"value","value":1}`)
	case "no-newline":
		for {
			if _, err := os.Stdout.Write([]byte(strings.Repeat("x", 1<<16))); err != nil {
				return
			}
		}
	case "flood":
		for {
			if _, err := fmt.Println(`{"kind":"turn","turn":{"done":true}}`); err != nil {
				return
			}
		}
	case "dies":
		fmt.Fprintln(os.Stderr, "oh no")
		os.Exit(7)
	case "killed":
		p, err := os.FindProcess(os.Getpid())
		if err == nil {
			_ = p.Kill()
		}
	case "memory":
		fmt.Fprintln(os.Stderr, "fatal error: runtime: out of memory")
		os.Exit(2)
	}
	select {} // silent, and deaf to EOF
}

// TestPool_BadChild checks that the parent survives, says what happened, and
// leaves no process behind (Close waits for them).
func TestPool_BadChild(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]core.Code{
		"garbage": core.CodeSandboxCrashed, "wrong-kind": core.CodeSandboxCrashed, "no-newline": core.CodeSandboxCrashed, "dies": core.CodeSandboxCrashed,
		"dies-idle": core.CodeSandboxCrashed, "killed": core.CodeSandboxCrashed, "memory": core.CodeSandboxMemory, "silent": core.CodeSandboxTimeout, "flood": "",
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			limits := sandbox.Limits{CPU: 10 * time.Minute, ResultBytes: 1 << 10, LogBytes: 1 << 10}
			if kind == "silent" { // the others end by what they do, however long a busy machine takes to start them
				limits.CPU = 100 * time.Millisecond
			}
			p := sandbox.NewPool(sandbox.Options{Command: []string{os.Args[0], badArg, kind}, Warm: -1, Limits: limits})
			s, _, err := p.Open(context.Background(), sandbox.Start{Script: "return 1"})
			if core.CodeOf(err) != want {
				t.Errorf("got %v, want %s", err, want)
			}
			if lost := kind == "killed" || kind == "dies-idle"; errors.Is(err, sandbox.ErrLost) != lost {
				t.Errorf("lost through no fault of the script: %t, want %t (%v)", !lost, lost, err)
			}
			if s != nil {
				s.Close()
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestPool_NoSuchCommand(t *testing.T) {
	t.Parallel()
	p := sandbox.NewPool(sandbox.Options{Command: []string{"/no/such/binary"}})
	p.Warm()
	_, err := p.Compile(context.Background(), "return 1", "")
	if core.CodeOf(err) != core.CodeSandboxCrashed || !errors.Is(err, sandbox.ErrLost) {
		t.Errorf("got %v", err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestPool_Closed(t *testing.T) {
	t.Parallel()
	p := newPool(t, patientLimits)
	s, _ := mustOpen(t, p, `await mcp.a.b()`, "")
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Deliver(context.Background(), nil); err == nil {
		t.Error("a session outlived its pool")
	}
	if _, err := p.Compile(context.Background(), "return 1", ""); core.CodeOf(err) != core.CodeCancelled {
		t.Errorf("got %v", err)
	}
	s.Close()
	_ = p.Close()
}

func TestSession_ContextStopsLoop(t *testing.T) {
	t.Parallel()
	p := newPool(t, sandbox.Limits{CPU: 10 * time.Minute})
	c, err := p.Compile(context.Background(), "while (true) {}", "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, _, err = p.Open(ctx, sandbox.Start{Script: c.Script}); core.CodeOf(err) != core.CodeCancelled {
		t.Errorf("got %v", err)
	}
}

// TestPool_NestedSource: code that keeps the compiler busy ends within the limit.
func TestPool_NestedSource(t *testing.T) {
	t.Parallel()
	p := newPool(t, smallLimits)
	begin := time.Now()
	sources := []string{
		"return " + strings.Repeat("(a=>", 700) + "1" + strings.Repeat(")", 700), "return " + strings.Repeat("[", 40<<10) + strings.Repeat("]", 40<<10),
		"return " + strings.Repeat("(", 45<<10) + "1" + strings.Repeat(")", 45<<10), "return `" + strings.Repeat("${`", 20<<10) + strings.Repeat("`}", 20<<10) + "`",
	}
	for _, source := range sources[:skiptest.Sized(t, 2, len(sources))] {
		if _, err := p.Compile(context.Background(), source, ""); core.CodeOf(err) == core.CodeInternal {
			t.Errorf("got %v", err)
		}
	}
	if took := time.Since(begin); took > 5*time.Minute { // far more than its limits, on the busiest machine
		t.Errorf("took %v", took)
	}
}
