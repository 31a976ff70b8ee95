package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/term"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/env"
)

// secretReader reads a line from a terminal without echo; nil when in is none.
// When the context ends it returns, with the terminal as it was.
func secretReader(in *os.File, out io.Writer) func(context.Context, string) (string, error) {
	fd := int(in.Fd())
	if !term.IsTerminal(fd) {
		return nil
	}
	return func(ctx context.Context, prompt string) (text string, err error) {
		// Nothing that is typed is shown from before the prompt is there.
		restore, err := withoutEcho(fd)
		if err != nil {
			return "", fmt.Errorf("the terminal cannot be asked: %w", err)
		}
		defer func() {
			err = errors.Join(err, restore())
			// The line end that was typed was not shown either.
			_, _ = io.WriteString(out, "\n")
		}()
		if _, err := io.WriteString(out, prompt); err != nil {
			return "", err
		}
		type answer struct {
			text []byte
			err  error
		}
		got := make(chan answer, 1)
		go func() {
			text, err := term.ReadPassword(fd)
			got <- answer{text, err}
		}()
		select {
		case a := <-got:
			return string(a.text), a.err
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// typedBefore forgets what was typed on a terminal and not read; nil when in is none.
func typedBefore(in *os.File) func() {
	fd := int(in.Fd())
	if !term.IsTerminal(fd) {
		return nil
	}
	return func() { forgetTyped(fd) }
}

// echoSwitch says whether a terminal shows what is typed; nil when in is none.
// It is for who reads the terminal line by line and goes on doing so.
func echoSwitch(in *os.File) func(on bool) error {
	fd := int(in.Fd())
	if !term.IsTerminal(fd) {
		return nil
	}
	restore := func() error { return nil }
	return func(on bool) error {
		if on {
			return restore()
		}
		if !canHide {
			return core.Errorf(core.CodeUsage, "what is typed cannot be hidden on this system; use pml continue --pin")
		}
		again, err := withoutEcho(fd)
		if err != nil {
			return fmt.Errorf("the terminal cannot be asked: %w", err)
		}
		restore = again
		return nil
	}
}

// browserOpener opens addresses with the program that BROWSER names, else with
// the system's own. It does not wait until that ends.
func browserOpener(environ env.Environ, goos string, start func(*exec.Cmd) error) func(context.Context, string) error {
	return func(ctx context.Context, address string) error {
		argv := browserCommand(environ, goos, address)
		// The browser outlives this command: its context is not the browser's.
		cmd := exec.CommandContext(context.WithoutCancel(ctx), argv[0], argv[1:]...)
		if err := start(cmd); err != nil {
			return core.Errorf(core.CodeServerUnreachable, "cannot start %s: %w; open the address by hand", argv[0], err)
		}
		return nil
	}
}

// browserCommand is the command line that opens an address, which is one of its
// arguments and never part of a shell's text.
func browserCommand(environ env.Environ, goos, address string) []string {
	named, _ := environ("BROWSER")
	first, _, _ := strings.Cut(named, ":")
	if goos == "windows" {
		first = named // its paths have colons
	}
	if words := strings.Fields(first); len(words) > 0 {
		placed := false
		for i, w := range words {
			if i > 0 && strings.Contains(w, "%s") {
				words[i], placed = strings.ReplaceAll(w, "%s", address), true
			}
		}
		if !placed {
			words = append(words, address)
		}
		return words
	}
	switch goos {
	case "darwin":
		return []string{"open", address}
	case "windows":
		return []string{"rundll32", "url.dll,FileProtocolHandler", address}
	}
	return []string{"xdg-open", address}
}

// startDetached starts a program that goes on by itself.
func startDetached(cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }() // nobody waits for how it ends
	return nil
}

// maxLine bounds what is read from a file descriptor; a PIN is shorter.
const maxLine = 4096

// readFD reads the first line of a file descriptor.
func readFD(fd int) (string, error) {
	f := os.NewFile(uintptr(fd), "--pin-fd")
	if f == nil {
		return "", fs.ErrInvalid
	}
	defer f.Close()
	line, err := bufio.NewReader(io.LimitReader(f, maxLine)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return strings.TrimRight(line, "\r\n"), nil
}
