//go:build !linux

package redo

import "os"

// syncData makes what was written to a file durable.
func syncData(f *os.File) error { return f.Sync() }

// Reserve is not known here.
func Reserve(*os.File, int64) error { return nil }
