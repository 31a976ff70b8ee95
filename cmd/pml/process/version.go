package process

import (
	"runtime"
	"runtime/debug"

	"github.com/casys-ai/pml/cli/app"
)

// Build is what the linker of a release says of it.
type Build struct{ Version, Commit, Date string }

// build is this program's, as Main was told.
var build Build

// buildVersion says which build this is: what the linker set, else what Go recorded
// about the module. What is not known is empty.
func buildVersion() app.Version {
	v := app.Version{Version: build.Version, Commit: build.Commit, Date: build.Date, Go: runtime.Version()}
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
