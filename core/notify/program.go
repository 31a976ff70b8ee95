package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"html"
	"os/exec"
	"time"

	"github.com/casys-ai/pml/core"
)

// pipesGrace is how long the output of a program is read after its end: so long only when
// a process that it has left behind holds it open.
const pipesGrace = time.Second

// program starts a program for each message, without a shell, and gives it the message as
// JSON on its standard input.
type program struct {
	base
	argv []string
	env  []string
	dir  string
}

// Send implements Carrier.
func (p *program) Send(ctx context.Context, n Note) error {
	raw, err := json.Marshal(n)
	if err != nil {
		return core.Errorf(core.CodeInternal, "cannot encode a message: %w", err)
	}
	return p.start(ctx, p.argv, append(raw, '\n'))
}

// start runs a program to its end, which is the end of all that it has started in its
// process group.
func (p *program) start(ctx context.Context, argv []string, stdin []byte) error {
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	words := &beginning{}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = p.dir, p.env, pipesGrace
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), words, words
	ownGroup(cmd)
	err := cmd.Run()
	if cmd.Process != nil {
		killGroup(cmd.Process.Pid)
	}
	switch {
	case ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &failure{reason: "the program did not end within " + sendTime.String() + " and was ended"}
	case cmd.ProcessState == nil:
		return &failure{reason: "the program could not be started: " + core.Visible(err.Error(), 200, false)}
	case !cmd.ProcessState.Success():
		f := &failure{reason: "the program ended with " + cmd.ProcessState.String()}
		if said := core.OneLine(words.buf.String(), 150); said != "" {
			f.reason += ": " + said
		}
		return f
	}
	return nil
}

// beginning keeps the beginning of what is written.
type beginning struct{ buf bytes.Buffer }

// Write implements io.Writer.
func (b *beginning) Write(p []byte) (int, error) {
	b.buf.Write(p[:min(len(p), maxAnswer-b.buf.Len())])
	return len(p), nil
}

// desktop shows the message on the screen of this machine, with what the system has.
type desktop struct {
	program
	mac bool
}

func newDesktop(s Spec) (Carrier, error) {
	for _, tool := range []string{"notify-send", "osascript"} {
		if path, err := s.LookPath(tool); err == nil {
			return &desktop{program{base: base{s.Name}, argv: []string{path}, env: s.Env, dir: s.Dir}, tool == "osascript"}, nil
		}
	}
	return nil, core.Errorf(core.CodeInvalidConfig, "finds neither notify-send nor osascript, by which it would show messages here")
}

// Send implements Carrier.
func (d *desktop) Send(ctx context.Context, n Note) error {
	if d.mac { // the texts are arguments of the script and no part of it
		return d.start(ctx, append(d.argv[:1:1], "-e", "on run argv", "-e", "display notification (item 2 of argv) with title (item 1 of argv)", "-e", "end run", n.Title, n.Text), nil)
	}
	urgency := "normal"
	if n.Risk == core.RiskHigh && n.Kind != KindDecided {
		urgency = "critical"
	}
	// The text may have markup, by the specification of desktop notifications.
	return d.start(ctx, append(d.argv[:1:1], "--app-name=pml", "--urgency="+urgency, "--", n.Title, html.EscapeString(n.Text)), nil)
}
