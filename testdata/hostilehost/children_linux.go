package main

import "syscall"

// childrenMiB is the most memory that a child which has ended had resident. It
// is asked here: what a parent is told of a process counts its own memory at the
// moment of the fork, too, and that of the test is large.
func childrenMiB() int {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u) != nil {
		return 0
	}
	return int(u.Maxrss >> 10)
}
