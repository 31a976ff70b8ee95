//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package keeper

import (
	"encoding/json"
	"os"
	"os/exec"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// terms are what the process that waits must know.
type terms struct {
	Before unix.Termios // the settings to restore
	Leave  string       // the sequences that give the screen back
	Group  int          // the process group of the program
	Shell  int          // that of who has started it
}

// Keeper is the program's side: it starts the process that waits and tells it
// how things stand. Where that is not possible it does nothing. It is safe for
// concurrent use.
type Keeper struct {
	in, out *os.File
	terms   *terms // nil: there is nothing to restore

	mu   sync.Mutex
	on   bool
	pipe *os.File      // nil: nobody waits
	gone chan struct{} // closed when the process that waits has ended
	kill func()
	over bool
}

// New remembers the settings of a terminal, which must be as they are to be
// left. Leave are the sequences that give its screen back.
func New(in, out *os.File, leave string) *Keeper {
	k := &Keeper{in: in, out: out}
	before, err := unix.IoctlGetTermios(int(in.Fd()), getTermios)
	if err != nil {
		return k
	}
	shell, _ := unix.Getpgid(unix.Getppid()) // 0 for none is no group
	k.terms = &terms{Before: *before, Leave: leave, Group: unix.Getpgrp(), Shell: shell}
	return k
}

// Taken says whether the program has the screen.
func (k *Keeper) Taken(on bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.on = on
	if k.pipe != nil {
		_, _ = k.pipe.Write([]byte{word(on)}) // nobody may be there any more
	}
}

func word(on bool) byte {
	if on {
		return taken
	}
	return given
}

// Start starts the process that waits. It is called once, after what must come
// first, and from any goroutine.
func (k *Keeper) Start() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.terms == nil || k.over || k.pipe != nil {
		return
	}
	line, err := json.Marshal(k.terms)
	if err != nil {
		return
	}
	self, err := os.Executable()
	if err != nil {
		return
	}
	r, w, err := os.Pipe()
	if err != nil {
		return
	}
	defer r.Close()
	// What fits into the pipe needs no reader yet.
	if _, err := w.Write(append(line, '\n', word(k.on))); err != nil {
		w.Close()
		return
	}
	_ = debug.SetCrashOutput(w, debug.CrashOptions{}) // without it a crash is on stderr only
	cmd := exec.Command(self, Command)                //nolint:noctx // it ends with the pipe, which no context does
	cmd.Stdin, cmd.Stdout, cmd.ExtraFiles = r, k.out, []*os.File{k.in}
	cmd.Env, cmd.Dir = []string{}, "/"
	// A group of its own: what a person types at the terminal is not for it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if cmd.Start() != nil {
		forget(w)
		return
	}
	k.pipe, k.gone = w, make(chan struct{})
	k.kill = func() { _ = cmd.Process.Kill() } // it may have ended
	go func() {
		defer close(k.gone)
		_ = cmd.Wait() // how it ended changes nothing
	}()
}

// forget closes the pipe, the runtime's end of it too.
func forget(pipe *os.File) {
	_ = debug.SetCrashOutput(nil, debug.CrashOptions{})
	pipe.Close()
}

// patience is how long the process that waits may take to end.
const patience = 5 * time.Second

// Close ends the process that waits; the program has given the screen back by
// then.
func (k *Keeper) Close() {
	k.mu.Lock()
	pipe := k.pipe
	k.over, k.pipe = true, nil
	k.mu.Unlock()
	if pipe == nil {
		return
	}
	forget(pipe)
	t := time.AfterFunc(patience, k.kill)
	defer t.Stop()
	<-k.gone
}
