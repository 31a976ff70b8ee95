package server

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// seesTerminals is whether the kernel tells who is at the other end of a socket.
const seesTerminals = true

func peerAtTerminal(conn *net.UnixConn, faces ...string) bool {
	pid, ok := peerPID(conn)
	return ok && runsAny(pid, faces) && hasTerminal(pid)
}

func peerIsOther(conn *net.UnixConn, faces ...string) bool {
	pid, ok := peerPID(conn)
	return ok && !runsAny(pid, faces)
}

// peerPID is the process of this user that has opened a connection; ok is false for
// another user's, and where it is not known.
func peerPID(conn *net.UnixConn) (pid int, ok bool) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, false
	}
	var cred *unix.Ucred
	if cerr := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); cerr != nil || err != nil {
		return 0, false
	}
	return int(cred.Pid), int(cred.Uid) == os.Getuid() && cred.Pid > 0
}

func procFile(pid int, name string) string {
	return filepath.Join("/proc", strconv.Itoa(pid), name)
}

// runsAny reports whether a process runs the file that this one runs, or one of others.
func runsAny(pid int, others []string) bool {
	is, err := os.Stat(procFile(pid, "exe"))
	if err != nil {
		return false
	}
	for _, file := range append([]string{"/proc/self/exe"}, others...) {
		if one, err := os.Stat(file); err == nil && os.SameFile(one, is) {
			return true
		}
	}
	return false
}

// hasTerminal reports whether a process has a controlling terminal: the fifth
// field of its stat after the name, which may hold anything, is not 0.
func hasTerminal(pid int) bool {
	stat, err := os.ReadFile(procFile(pid, "stat"))
	i := bytes.LastIndexByte(stat, ')')
	if err != nil || i < 0 {
		return false
	}
	fields := bytes.Fields(stat[i+1:])
	return len(fields) > 4 && string(fields[4]) != "0"
}
