package install

import (
	"bytes"
	"context"
	"io"
	"os/exec"
	"time"
)

// keepOutput is how much of a program's output is kept: its end, where npm
// says what went wrong.
const keepOutput = 64 << 10

// execRunner runs programs of this machine.
type execRunner struct{}

// Run implements CommandRunner.
func (execRunner) Run(ctx context.Context, c CommandLine) (CommandOutput, error) {
	cmd := exec.CommandContext(ctx, c.Path, c.Args...)
	cmd.Dir, cmd.Env = c.Dir, c.Env
	var stdout, stderr tail
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if c.Heard != nil {
		cmd.Stderr = io.MultiWriter(&stderr, &lineWriter{say: c.Heard})
	}
	ownGroup(cmd)
	// A grandchild that keeps the pipes open must not hold us.
	cmd.WaitDelay = 2 * time.Second
	err := cmd.Run()
	return CommandOutput{Stdout: stdout.Bytes(), Stderr: stderr.Bytes()}, err
}

// tail keeps the end of what is written to it.
type tail struct{ b []byte }

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if len(t.b) > 2*keepOutput {
		t.b = bytes.Clone(t.b[len(t.b)-keepOutput:])
	}
	return len(p), nil
}

// Bytes returns what was kept.
func (t *tail) Bytes() []byte { return t.b[max(0, len(t.b)-keepOutput):] }

// lineWriter gives whole lines on; the rest of one that is too long is lost.
type lineWriter struct {
	say  func(string)
	part []byte
}

// Write implements io.Writer.
func (w *lineWriter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		w.part = append(w.part, line[:min(len(line), max(0, 8192-len(w.part)))]...)
		if whole {
			w.say(string(bytes.TrimSuffix(w.part, []byte("\r"))))
			w.part = w.part[:0]
		}
		rest = after
	}
	return len(p), nil
}
