package main

import (
	"runtime"
	"runtime/debug"

	"github.com/casys-ai/pml/cli/app"
)

// The linker sets these in releases: -X main.version=v1.2.3.
var version, commit, date string

// buildVersion says which build this is: what the linker set, else what Go recorded
// about the module. What is not known is empty.
func buildVersion() app.Version {
	v := app.Version{Version: version, Commit: commit, Date: date, Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if v.Version == "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && v.Commit == "":
			v.Commit = s.Value
		case s.Key == "vcs.time" && v.Date == "":
			v.Date = s.Value
		}
	}
	return v
}
