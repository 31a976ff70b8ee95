package server_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"

	"github.com/casys-ai/pml/core/skiptest"
	"go.uber.org/goleak"
)

// dialArg makes this program somebody who opens a socket, and waits until that is
// closed.
const dialArg = "server-test-dial"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == dialArg {
		conn, err := net.Dial("unix", os.Args[2])
		if err == nil {
			_, err = conn.Read(make([]byte, 1))
		}
		if err != nil && !errors.Is(err, io.EOF) {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(verify(m))
}

// verify runs the tests and finds goroutines that they left behind. On a busy
// machine some take seconds to end.
func verify(m *testing.M) int {
	skiptest.Overlap()
	skiptest.InMemory()
	code := m.Run()
	for tries := 1; code == 0; tries++ {
		err := goleak.Find()
		if err == nil {
			break
		}
		if tries == 60 {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	return code
}
