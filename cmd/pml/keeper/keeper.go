// Package keeper gives a terminal back when the program that had it ended
// without doing so: killed, or by a panic that nobody could catch.
//
// That takes another process. It is this binary again, under a hidden command,
// and it waits at a pipe for the end of the program: for its end the pipe needs
// no cooperation. The program tells it through the pipe when it takes the
// screen and when it has given it back, and the runtime of Go writes there what
// a crash says, which would be lost with the screen.
//
// The other process answers to its command before the libraries of all other
// commands start, as package about does: it stays as long as the program does,
// and needs a fraction of the memory so.
package keeper

// Command is the hidden command of the process that waits.
const Command = "__terminal"

// What the program says through the pipe, after the terms in a line of JSON.
// Anything else is what a crash says, to the end.
const (
	taken = '+'
	given = '-'
)

// maxCrash is how much of what a crash says is shown, in bytes.
const maxCrash = 16 << 10
