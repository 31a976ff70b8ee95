package redo

import "os"

// OnSync replaces the sync of the log.
func (l *Log) OnSync(f func() error) { l.sync = func(*os.File) error { return f() } }
