package hook

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
	"github.com/casys-ai/pml/core/redact"
)

const (
	// maxReply bounds what a program may write, and a URL may answer, in bytes.
	maxReply = 8 << 20
	// maxWords bounds what is kept of a program's standard error.
	maxWords = 16 << 10
	// pipesGrace is how long the output of a program is read after its end: so long only
	// when a process that it has left behind holds it open. On a busy machine pml takes
	// its time to read the rest, and an answer that was cut off would refuse the call.
	pipesGrace = time.Second
	// exitBlock is the exit status of a program that blocks.
	exitBlock = 2
)

// passed are the variables of the process that programs get.
var passed = []string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TMPDIR", "TEMP", "TMP", "SystemRoot", "ComSpec", "PATHEXT", "USERPROFILE"}

// command runs a program that speaks the hook protocol. It and all that it has started
// in its process group are ended when it ends, or is late; what has left the group
// (setsid, daemons) lives on.
func (e *execution) command(ctx context.Context, in flow.Input) (flow.Output, error) {
	c := in.Node.Data.Command
	argv := in.Flow.CommandLine(c, in.Request.Workspace, e.r.o.Home)
	if may := e.r.o.MayStart; may != nil {
		if err := may(in.Flow, in.Node, in.Request.Workspace); err != nil {
			return flow.Output{}, err
		}
	}
	stdin, err := eventOf(in)
	if err != nil {
		return flow.Output{}, err
	}
	env, err := e.environment(in, c.Env)
	if err != nil {
		return flow.Output{}, err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ctx, cancel := context.WithTimeout(ctx, in.Node.Timeout())
	defer cancel()
	stdout := &bounded{most: maxReply, over: func() { stop(errFlood) }}
	stderr := &bounded{most: maxWords}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = in.Request.Workspace, env, pipesGrace
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), stdout, stderr
	ownGroup(cmd)
	err = cmd.Run()
	if cmd.Process != nil {
		killGroup(cmd.Process.Pid)
	}
	return e.ended(ctx, in, cmd, err, stdout, stderr)
}

var errFlood = errors.New("flood")

// ended reads how a program has ended.
func (e *execution) ended(ctx context.Context, in flow.Input, cmd *exec.Cmd, err error, stdout, stderr *bounded) (out flow.Output, _ error) {
	words := strings.TrimSpace(stderr.String())
	if words != "" {
		out.Console = strings.Split(words, "\n")
	}
	switch {
	case errors.Is(context.Cause(ctx), errFlood):
		return out, core.Errorf(core.CodeHookFailed, "the program wrote more than %d MiB and was ended", maxReply>>20)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return out, core.Errorf(core.CodeTimeout, "the program did not end within %v (timeoutMs) and was ended", in.Node.Timeout())
	case cmd.ProcessState == nil:
		return out, core.Errorf(core.CodeHookFailed, "the program could not be started: %w", err)
	case cmd.ProcessState.ExitCode() == exitBlock:
		out.Block = &flow.Block{Message: words}
		return out, nil
	case !cmd.ProcessState.Success():
		return out, core.Errorf(core.CodeHookFailed, "the program ended with %s, which is neither 0 (go on) nor %d (block): %s", cmd.ProcessState, exitBlock, cmp.Or(core.Visible(words, 300, false), "it gives no reason"))
	}
	gave, err := readReply(in, stdout.Bytes())
	gave.Console = append(out.Console, gave.Console...)
	return gave, err
}

// environment is that of a program: a few variables of the process, what hosts tell
// their hooks, and the node's own.
func (e *execution) environment(in flow.Input, own map[string]string) ([]string, error) {
	env := map[string]string{flow.WorkspaceVariable: in.Request.Workspace}
	for _, name := range passed {
		if e.r.o.Environ == nil {
			break
		}
		if value, ok := e.r.o.Environ(name); ok {
			env[name] = value
		}
	}
	for name, text := range own {
		value, err := e.expand(in, text)
		if err != nil {
			return nil, err
		}
		env[name] = value
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(out, name+"="+env[name])
	}
	return out, nil
}

// expand fills in the keys that a text names. What comes of the node is kept without
// their values from then on.
func (e *execution) expand(in flow.Input, text string) (string, error) {
	if !strings.Contains(text, "${") {
		return text, nil
	}
	if e.r.o.Expand == nil {
		return "", core.Errorf(core.CodeHookFailed, "keys are not available here")
	}
	value, used, err := e.r.o.Expand(in.Flow, in.Request.Workspace, text)
	if err != nil {
		return "", err
	}
	secrets, own := e.secrets, redact.New(used)
	e.secrets = func(text string) string { return secrets(own.String(text)) }
	return value, nil
}

// bounded keeps the beginning of what is written. Past its bound the rest is dropped,
// or, with over, refused.
type bounded struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	most int
	over func()
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	room := min(len(p), b.most-b.buf.Len())
	b.buf.Write(p[:room])
	if room < len(p) && b.over != nil {
		b.over()
		return room, fmt.Errorf("more than %d bytes", b.most)
	}
	return len(p), nil
}

// String implements fmt.Stringer.
func (b *bounded) String() string { return string(b.Bytes()) }

// Bytes returns a copy of what is kept.
func (b *bounded) Bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.buf.Bytes())
}
