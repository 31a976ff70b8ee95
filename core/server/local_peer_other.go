//go:build !linux

package server

import "net"

// peerAtTerminal: here the PIN shows that somebody is a person.
func peerAtTerminal(*net.UnixConn) bool { return false }
