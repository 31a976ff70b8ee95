//go:build unix

package pmltest

import (
	"context"
	"errors"
	"io"
	"regexp"
	"strings"
	"syscall"

	"github.com/creack/pty"

	"github.com/casys-ai/pml/core"
)

// TerminalOutput is what a command wrote to its terminal.
type TerminalOutput struct {
	Text string
	Exit int
}

// Reply is what a person types once a text is on the screen. What the text
// captured can be typed: $1.
type Reply struct {
	On   *regexp.Regexp
	Send string
}

// Typed is a line that a person types once a text is there.
func Typed(on, send string) Reply { return Reply{regexp.MustCompile(on), send + "\n"} }

// Terminal runs pml on a terminal of its own that answers no query. Whatever
// waits for an answer would run into the time limit.
func (m *Machine) Terminal(size pty.Winsize, env []string, replies []Reply, args ...string) TerminalOutput {
	m.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	cmd := m.Command(ctx, args...)
	cmd.SysProcAttr = nil // pty makes a session of its own
	// Without colours of its own, whatever could act on a terminal is of somebody else.
	cmd.Env = append(append(cmd.Env, "TERM=xterm-256color", "NO_COLOR=1"), env...)
	tty, err := pty.StartWithSize(cmd, &size)
	if err != nil {
		m.T.Fatal(err)
	}
	defer tty.Close()
	var out []byte
	chunk := make([]byte, 4096)
	for err == nil {
		var n int
		n, err = tty.Read(chunk)
		out = append(out, chunk[:n]...)
		if len(replies) == 0 {
			continue
		}
		if at := replies[0].On.FindSubmatchIndex(out); at != nil {
			if _, err := tty.Write(replies[0].On.Expand(nil, []byte(replies[0].Send), out, at)); err != nil {
				m.T.Fatal(err)
			}
			replies = replies[1:]
		}
	}
	if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.EIO) { // the other end was closed
		m.T.Fatal(err)
	}
	err = cmd.Wait()
	if ctx.Err() != nil {
		m.T.Fatalf("pml %s waited for something: %q", strings.Join(args, " "), out)
	}
	if err != nil && cmd.ProcessState.ExitCode() < 0 {
		m.T.Fatal(err)
	}
	if len(replies) > 0 {
		m.T.Errorf("pml %s never showed %s: %q", strings.Join(args, " "), replies[0].On, out)
	}
	return TerminalOutput{string(out), cmd.ProcessState.ExitCode()}
}

// UsualSize is the size of a terminal.
var UsualSize = pty.Winsize{Rows: 24, Cols: 80}

// ApproveOnTerminal approves where people decide: the card is shown and answered.
func (m *Machine) ApproveOnTerminal(ap core.Approval) TerminalOutput {
	m.T.Helper()
	return m.Terminal(UsualSize, nil, Yes(ap), "continue", string(ap.RunID), "--approve")
}

// Yes is what a person types who approves.
func Yes(ap core.Approval) []Reply {
	replies := []Reply{Typed(`ater: $`, "y")}
	if ap.Risk == core.RiskHigh {
		replies = append(replies, Typed(`type (\w{4}) to approve: $`, "$1"))
	}
	return replies
}

// YesHigh is what a person types who approves what is of high risk.
func YesHigh(more ...Reply) []Reply { return append(Yes(core.Approval{Risk: core.RiskHigh}), more...) }
