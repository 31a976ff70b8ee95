// Command pml runs workflows that agents write, journals them and stops them
// for approvals.
package main

import (
	"os"

	"github.com/casys-ai/pml/cmd/pml/process"
)

// The linker sets these in releases: -X main.version=v1.2.3.
var version, commit, date string

func main() {
	os.Exit(process.Main(process.Build{Version: version, Commit: commit, Date: date}))
}
