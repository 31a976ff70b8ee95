package daemon

import (
	"context"
	"fmt"

	"github.com/casys-ai/pml/core"
)

// spawn is not there: a server on Windows is started by hand.
func (d *Daemon) spawn(context.Context) (*Server, error) {
	return nil, core.Errorf(core.CodeServerUnreachable, "no pml server runs here, and on Windows none is started in the background").
		WithNext("pml", "serve", "--listen", "127.0.0.1:7465")
}

// detach is not there either.
func detach([]string, []string, string) error {
	return core.Errorf(core.CodeInternal, "on Windows nothing is started in the background")
}

// private cannot be checked here.
func private(dir string) error { return fmt.Errorf("%s: owners are not known on Windows", dir) }

// terminate cannot ask: a process of Windows has no signals.
func terminate(pid int) error {
	return fmt.Errorf("on Windows process %d has to be stopped where it was started", pid)
}

// isPipe is false: no server is started in the background here.
func isPipe(int) bool { return false }

// closeOnExec has nothing to do without pipes.
func closeOnExec(int) {}
