//go:build !linux

package bolt

// bootID is not known here: there is no redo log.
func bootID() string { return "" }

// mountID is not known here.
func mountID(string) string { return "" }
