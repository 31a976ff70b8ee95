package process

import (
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core/env"
)

// crashFile is where the Go runtime writes what it says when it ends pml tui: on
// the screen that the terminal leaves behind nobody could read it.
const crashFile = "tui-crash.log"

// recordCrashes has the Go runtime write a crash of this process to a file in the
// home as well as to stderr, until stop is called. Crashes are appended. A
// demonstration has no home; where the file cannot be written a crash is on
// stderr only.
func recordCrashes(o app.TerminalOptions, environ env.Environ) (stop func()) {
	none := func() {}
	if o.Demo {
		return none
	}
	home, err := ownHome(o.Home, environ)
	if err != nil {
		return none
	}
	f, err := os.OpenFile(filepath.Join(home.Dir, crashFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return none
	}
	defer f.Close() // the runtime has a descriptor of its own
	if err := debug.SetCrashOutput(f, debug.CrashOptions{}); err != nil {
		return none
	}
	return func() { _ = debug.SetCrashOutput(nil, debug.CrashOptions{}) }
}
