//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package keeper

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/casys-ai/pml/core"
)

func init() {
	if len(os.Args) == 2 && os.Args[1] == Command {
		os.Exit(wait())
	}
}

// terminal is the descriptor of the terminal whose settings are restored; its
// screen is stdout.
const terminal = 3

// wait waits for the end of the program, and gives the terminal back if that did
// not.
func wait() int {
	// It ends with the program and never before: not by a signal for all that is
	// called pml, and it may write although the terminal is another's.
	signal.Ignore(unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGPIPE)
	pipe := bufio.NewReader(os.Stdin)
	line, err := pipe.ReadBytes('\n')
	var t terms
	if err != nil || json.Unmarshal(line, &t) != nil {
		return 2
	}
	if on, crash := follow(pipe); on {
		t.restore(crash)
	}
	return 0
}

// follow reads to the end whether the program has the screen, and what a crash
// says.
func follow(pipe io.ByteReader) (on bool, crash []byte) {
	for {
		b, err := pipe.ReadByte()
		switch {
		case err != nil:
			return on, crash
		case len(crash) == 0 && (b == taken || b == given):
			on = b == taken
		case len(crash) < maxCrash:
			crash = append(crash, b)
		}
	}
}

// restore gives the terminal back. It is left alone where somebody else uses it
// by now: a job in the foreground that is neither the program nor its shell, or
// whoever has changed the settings meanwhile, but for the shell, which cannot
// give the screen back.
func (t *terms) restore(crash []byte) {
	group, err := unix.IoctlGetInt(terminal, unix.TIOCGPGRP)
	shell := err == nil && group == t.Shell && group != t.Group
	if err == nil && group != t.Group && !shell {
		return
	}
	now, err := unix.IoctlGetTermios(terminal, getTermios)
	if err != nil {
		return // it is gone
	}
	untouched := raw(now)
	if !untouched && !shell {
		return
	}
	leave := t.Leave
	if untouched {
		_ = unix.IoctlSetTermios(terminal, setTermios, &t.Before)
		leave = pasteOff + leave // a shell that reads a line has set it itself
	}
	if len(crash) > 0 {
		leave += "pml: the terminal crashed; this is a fault of pml\n" + core.Visible(string(crash), 0, true) + "\n"
	}
	_, _ = io.WriteString(os.Stdout, leave) // there is nobody to tell
}

// pasteOff ends the marks around what is pasted.
const pasteOff = "\x1b[?2004l"

// raw reports whether settings are those of a program that has the whole screen.
// Whoever reads lines leaves it to the terminal to end them on the screen.
func raw(t *unix.Termios) bool {
	return t.Lflag&(unix.ECHO|unix.ICANON|unix.ISIG) == 0 && t.Oflag&unix.OPOST == 0
}
