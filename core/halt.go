package core

import (
	"cmp"
	"time"
)

// Halt says that no call begins until a person lets calls go on: none of the runs of a
// store. What was under way when it came may end.
type Halt struct {
	// Side is whose runs are halted, said where those of both are listed.
	Side   Side      `json:"side,omitempty"`
	By     Actor     `json:"by"`
	At     time.Time `json:"at"`
	Reason string    `json:"reason,omitempty"`
}

// Text says who has halted calls, since when and why. The names in it are foreign text,
// made fit to be shown.
func (h Halt) Text() string {
	text := "halted by " + cmp.Or(Visible(h.By.Name(), 80, false), "somebody") + " since " + h.At.UTC().Format("2006-01-02 15:04:05Z")
	if h.Reason != "" {
		text += ": " + OneLine(h.Reason, 300)
	}
	return text
}

// Error is the error of a call that is not made because calls are halted.
func (h Halt) Error() *Error {
	return Errorf(CodeHalted, "no call begins: %s; a person lets calls go on with pml resume", h.Text()).WithNotMade().WithNext("pml", "resume")
}

// HaltLease is how long a process may go by what it has read: that calls are not halted.
// Whoever halts them waits as long before it says that they are.
const HaltLease = 200 * time.Millisecond

// Resumption lets calls go on that were halted.
type Resumption struct {
	By     Actor
	At     time.Time
	Reason string
	// Presence and Proved are as those of a Decision: how whoever resumes has shown to be
	// a person, and the hash of the PIN that was typed.
	Presence Presence
	Proved   string
}
