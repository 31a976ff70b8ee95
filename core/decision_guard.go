package core

import "time"

// Guard is what a store wants of whoever decides about what it keeps. It lies in
// the store itself, so that no home with another configuration makes it looser.
type Guard struct {
	// Pin is the hash of the PIN that an approval needs, empty for none.
	Pin string `json:"pin,omitempty"`
	// Unproved says that the PIN came from a configuration after there were runs, and that
	// nobody has typed it at a terminal since: an approval needs it, and it shows no person.
	Unproved bool `json:"unproved,omitempty"`
	// Tries counts wrong PINs: by the owner of an API key, "" for the person at
	// the machine.
	Tries map[string]PinTries `json:"tries,omitempty"`
}

// PinTries counts wrong PINs since the last right one.
type PinTries struct {
	Wrong int       `json:"wrong"`
	Last  time.Time `json:"last"`
}

// Presence says how whoever decides has shown to be a person.
type Presence string

// The ways to show it. The empty value shows nothing.
const (
	// PresenceTerminal is a terminal on which the question was shown and answered.
	PresenceTerminal Presence = "terminal"
	// PresencePin is the PIN.
	PresencePin Presence = "pin"
	// PresenceHost is the dialog of an agent's host that is trusted with it.
	PresenceHost Presence = "host"
	// PresencePage stands in the audit log of a decision on a page of pml serve: somebody
	// who was signed in there sent the form that shows what is asked. It shows no person.
	PresencePage Presence = "page"
	// PresenceNobody stands in the audit log of a decision by a command or a request
	// that nobody was asked about: an id was given, and that was the consent.
	PresenceNobody Presence = "nobody"
)
