//go:build !linux

package bolt

import "io/fs"

// bootID is not known here: there is no redo log.
func bootID() string { return "" }

// identity is not known here.
func identity(fs.FileInfo) (device, inode uint64) { return 0, 0 }
