// Package decide holds the rules by which a person at a terminal can decide:
// what must have been on screen before, what has to be typed, and when a key
// press is too early to have been meant. It is pure; the screen asks it.
package decide

import (
	"time"

	"github.com/casys-ai/pml/core"
)

// Quiet is how long a decision key does nothing after what is under it changed
// by itself, something popped up, or the terminal got the focus back.
const Quiet = 425 * time.Millisecond

// Verb is what a person wants with an approval.
type Verb string

// The verbs.
const (
	Approve  Verb = "approve"
	Remember Verb = "remember" // approve, and remember as Answer says
	Deny     Verb = "deny"
	Abort    Verb = "abort" // deny, and end the run
)

// Confirmation returns the four characters that must be typed before an
// approval of high risk is approved: the first of the new hash, or of the run's
// id where there is none. It is empty where none are needed.
func Confirmation(a core.Approval) string { return "" }

// NeedsReading reports whether the end of the payload must have been on screen
// before the approval can be approved.
func NeedsReading(a core.Approval) bool { return true }

// InBulk reports whether marked approvals of the type can be decided together.
func InBulk(t core.ApprovalType) bool { return t != core.ApproveIntegrity }
