package server_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/creack/pty"

	"github.com/casys-ai/pml/core/server"
)

// Who says that it has asked a person is believed if it is this program and has a
// terminal.
func TestPeerAtTerminal(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	shell := "import socket, sys; c = socket.socket(socket.AF_UNIX); c.connect(sys.argv[1]); c.recv(1)"
	for name, tt := range map[string]struct {
		argv     []string
		terminal bool
		want     bool
	}{
		"OnATerminal":      {[]string{self, dialArg}, true, true},
		"WithoutATerminal": {[]string{self, dialArg}, false, false},
		"AnotherProgram":   {[]string{"python3", "-c", shell}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(tt.argv[0]); err != nil {
				t.Skip(err)
			}
			path := filepath.Join(t.TempDir(), "s")
			ln, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			cmd := exec.CommandContext(t.Context(), tt.argv[0], append(tt.argv[1:], path)...)
			if tt.terminal {
				tty, err := pty.Start(cmd)
				if err != nil {
					t.Fatal(err)
				}
				defer tty.Close()
			} else {
				cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
			}
			conn, err := ln.Accept()
			if err != nil {
				t.Fatal(err)
			}
			got := server.PeerAtTerminal(conn.(*net.UnixConn))
			if !server.PeerAtTerminal(conn.(*net.UnixConn), filepath.Join(t.TempDir(), "none"), program(t, cmd)) == tt.terminal {
				t.Error("a face is not believed just as it has a terminal")
			}
			if server.PeerIsOther(conn.(*net.UnixConn), program(t, cmd)) {
				t.Error("a face is another program")
			}
			if other := server.PeerIsOther(conn.(*net.UnixConn)); other != (name == "AnotherProgram") {
				t.Errorf("it is another program: %v", other)
			}
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Log(err)
			}
			if got != tt.want {
				t.Errorf("it is believed: %v", got)
			}
		})
	}
}

// program is the file that a process runs.
func program(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	file, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "exe"))
	if err != nil {
		t.Fatal(err)
	}
	return file
}
