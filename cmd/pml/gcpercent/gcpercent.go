// Package gcpercent sets how far the heap grows before garbage is collected. A program that
// imports it does so as its first package of the module: packages are initialised in the
// order of their paths, and those that pml uses leave 3.6 MB behind, which would be
// collected for nothing.
package gcpercent

import "runtime/debug"

// percent lets the heap grow to three times what is in use, at least 8 MiB; Go's own 100 lets
// it grow to twice that, at least 4. A start of pml takes a fifth fewer instructions so, and
// a DAG of 100 calls, too.
const percent = 200

func init() {
	if chosen := debug.SetGCPercent(percent); chosen != 100 { // by GOGC; a 100 there is as none
		debug.SetGCPercent(chosen)
	}
}
