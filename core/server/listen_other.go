//go:build !unix

package server

import "io/fs"

// posix says that modes and owners of files mean what they say.
const posix = false

func ours(fs.FileInfo) bool { return true }

// refused reports that nobody listens on a socket.
func refused(error) bool { return true }
