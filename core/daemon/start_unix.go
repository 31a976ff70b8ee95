//go:build unix

package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/casys-ai/pml/core"
)

// readyFD is the descriptor of the pipe in a new server: the first after the
// three that every process has.
const readyFD = 3

// spawn starts a server in the background and waits until it is ready. The
// caller holds the lock of starters.
func (d *Daemon) spawn(ctx context.Context) (*Server, error) {
	log, err := openLog(LogFile(d.o.Home))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, core.Errorf(core.CodeInternal, "cannot make a pipe to a new server: %w", err)
	}
	defer r.Close()
	cmd := d.command(log, w)
	keepDescriptors()
	err = cmd.Start()
	w.Close()
	if err != nil {
		return nil, core.Errorf(core.CodeServerUnreachable, "cannot start a pml server: %w", err)
	}
	if err := d.await(ctx, cmd, r); err != nil {
		return nil, err
	}
	s, err := d.Find(ctx)
	if err == nil && s == nil {
		err = core.Errorf(core.CodeServerUnreachable, "the pml server (process %d) was ready and is gone; see %s", cmd.Process.Pid, log.Name())
	}
	if err != nil {
		return nil, err
	}
	return d.accept(s)
}

// command is the process of a server: a session of its own at the root folder,
// so that no terminal, no shell and no mount depends on it, and nothing of the
// starter's open but the log and the pipe. Whoever reads the starter's output
// sees its end when the starter ends.
func (d *Daemon) command(log, ready *os.File) *exec.Cmd {
	args := append([]string{}, d.o.Command[1:]...)
	args = append(args, "--ready-fd", strconv.Itoa(readyFD))
	// No context: the process is to outlive this one.
	cmd := exec.CommandContext(context.Background(), d.o.Command[0], args...)
	cmd.Dir = "/"
	cmd.Env = ChildEnv(d.o.Home, d.o.Environ, d.o.Names)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{ready}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

// await waits for the word of a new server. One that ends without it, or says
// why it cannot start, is waited for; one that is too slow is left to itself.
func (d *Daemon) await(ctx context.Context, cmd *exec.Cmd, r *os.File) error {
	type word struct {
		said   bool
		failed *core.Error
		err    error
	}
	got := make(chan word, 1)
	go func() {
		said, failed, err := heard(r)
		got <- word{said, failed, err}
	}()
	late := time.NewTimer(d.o.StartTime)
	defer late.Stop()
	pid := cmd.Process.Pid
	select {
	case g := <-got:
		if g.said && g.failed == nil {
			return cmd.Process.Release()
		}
		err := cmd.Wait()
		if g.failed != nil {
			return g.failed
		}
		return core.Errorf(core.CodeServerUnreachable, "the pml server that was started (process %d) ended before it was ready: %w; see %s",
			pid, errors.Join(err, g.err), LogFile(d.o.Home)).WithNext("pml", "serve")
	case <-late.C:
		return core.Errorf(core.CodeServerUnreachable, "the pml server that was started (process %d) is not ready after %s; see %s",
			pid, d.o.StartTime, LogFile(d.o.Home))
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// openLog opens the file for what a server writes before it has a log of its
// own, and when it crashes.
func openLog(name string) (*os.File, error) {
	err := os.MkdirAll(filepath.Dir(name), 0o700)
	if err == nil {
		var f *os.File
		if f, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err == nil {
			return f, nil
		}
	}
	return nil, core.Errorf(core.CodeStoreFailed, "cannot write a server's log: %w; make the folder writable, or use another PML_HOME", err)
}

// detach implements Detach.
func detach(argv, environ []string, log string) error {
	out, err := openLog(log)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.CommandContext(context.Background(), argv[0], argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = "/", environ, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	keepDescriptors()
	if err := cmd.Start(); err != nil {
		return core.Errorf(core.CodeInternal, "cannot start %s in the background: %w", filepath.Base(argv[0]), err)
	}
	go func() { _ = cmd.Wait() }() // it may end before this process does
	return nil
}

// keepDescriptors marks all descriptors that this process has got from its own
// parent, so that no child gets them: a server would keep a caller's pipes open
// for hours.
func keepDescriptors() {
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		return
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd >= readyFD {
			syscall.CloseOnExec(fd)
		}
	}
}

// terminate asks a process to stop.
func terminate(pid int) error {
	if pid <= 1 {
		return fmt.Errorf("process %d is no server", pid)
	}
	return syscall.Kill(pid, syscall.SIGTERM)
}

// closeOnExec keeps a descriptor from the children of this process.
func closeOnExec(fd int) { syscall.CloseOnExec(fd) }

// isPipe reports whether a descriptor is open and is a pipe.
func isPipe(fd int) bool {
	var st syscall.Stat_t
	return syscall.Fstat(fd, &st) == nil && st.Mode&syscall.S_IFMT == syscall.S_IFIFO
}
