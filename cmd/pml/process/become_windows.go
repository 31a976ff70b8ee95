package process

import (
	"context"
	"errors"
	"os"
	"os/exec"

	"github.com/casys-ai/pml/cli/app"
)

// become runs another program with the same arguments and variables in the place of this one, which ends with its
// exit code: Windows lets no process become another program. What interrupts this one reaches both.
func become(_ context.Context, program string) error {
	c := exec.Command(program, os.Args[1:]...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := c.Run()
	if err == nil {
		os.Exit(0)
	}
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		return app.ExitStatus(ended.ExitCode())
	}
	return cannotBecome(program, err)
}
