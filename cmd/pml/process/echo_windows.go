package process

import "golang.org/x/sys/windows"

// canHide says that withoutEcho hides what is typed.
const canHide = true

// withoutEcho makes a console show nothing of what is typed; lines and signals
// stay as they are. restore takes that back.
func withoutEcho(fd int) (restore func() error, err error) {
	console := windows.Handle(fd)
	var before uint32
	if err := windows.GetConsoleMode(console, &before); err != nil {
		return nil, err
	}
	if err := windows.SetConsoleMode(console, before&^windows.ENABLE_ECHO_INPUT); err != nil {
		return nil, err
	}
	return func() error { return windows.SetConsoleMode(console, before) }, nil
}

// forgetTyped forgets what a console has got and nobody has read.
func forgetTyped(fd int) { _ = windows.FlushConsoleInputBuffer(windows.Handle(fd)) }
