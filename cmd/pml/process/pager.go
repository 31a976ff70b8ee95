package process

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/casys-ai/pml/core/env"
)

// errNoPager says that nothing pages here.
var errNoPager = errors.New("there is no pager")

// pager shows a text in PAGER, else in less, on the terminal of this process, until the
// person leaves it.
func pager(environ env.Environ) func(ctx context.Context, text string) error {
	return func(ctx context.Context, text string) error {
		line, _ := environ("PAGER")
		if strings.TrimSpace(line) == "" {
			if _, err := exec.LookPath("less"); err != nil {
				return errNoPager
			}
			line = "less"
		}
		if runtime.GOOS == "windows" {
			return errNoPager // more.com takes no keys from the console where stdin is a pipe
		}
		cmd := exec.CommandContext(ctx, "sh", "-c", line)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(text), os.Stderr, os.Stderr
		return cmd.Run()
	}
}
