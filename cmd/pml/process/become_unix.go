//go:build unix

package process

import (
	"context"
	"os"
	"syscall"
)

// become makes this process another program with the same arguments and variables; what it has open stays.
func become(_ context.Context, program string) error {
	argv := append([]string{program}, os.Args[1:]...)
	return cannotBecome(program, syscall.Exec(program, argv, os.Environ()))
}
