// Package notify tells people who are not at a terminal of approvals that wait: it decides
// when there is something to say (bursts, quiet hours, reminders, what was decided), keeps
// what is to be sent in a document of the store, and sends it by carriers.
//
// Several processes may send for one store. Each change of the document is a
// compare-and-set, and whoever sends a message claims it in the document before: so one
// process sends it. One that dies after its claim loses nothing, because the claim ends
// after a minute; a message can then arrive twice, under the same id.
package notify

import (
	"context"
	"time"

	"github.com/casys-ai/pml/core"
)

// Settings say what is sent, by what and when. A duration of 0 turns off what it is for.
type Settings struct {
	Carriers []Carrier
	// Details: messages say what was asked, with arguments; otherwise only how much waits,
	// of which risk and run, until when.
	Details bool
	// Page is where a browser finds the pages of the server; empty: messages have no link.
	Page    string
	After   time.Duration // an approval that is decided sooner is not worth a message
	Burst   time.Duration // at least between two messages of one kind
	Remind  time.Duration // before an approval expires
	Decided bool          // say what became of approvals of which was told
	Quiet   Quiet
}

// carrier returns the one with a name, or nil.
func (s Settings) carrier(name string) Carrier {
	for _, c := range s.Carriers {
		if c.Name() == name {
			return c
		}
	}
	return nil
}

// Quiet are the hours in which nothing is sent, by the clock on the wall of a place. From
// and To are minutes of the day; equal ones are no quiet hours.
type Quiet struct {
	From, To int
	Zone     *time.Location
}

// Holds reports whether a time is within the quiet hours.
func (q Quiet) Holds(at time.Time) bool {
	if q.From == q.To {
		return false
	}
	if q.Zone != nil {
		at = at.In(q.Zone)
	}
	m := at.Hour()*60 + at.Minute()
	if q.From < q.To {
		return q.From <= m && m < q.To
	}
	return m >= q.From || m < q.To
}

// Carrier takes messages to a person.
type Carrier interface {
	Name() string // as it is configured
	// Send sends one message. Its errors are safe to show: they hold no key and no URL.
	Send(ctx context.Context, n Note) error
}

// Kind is what a message is about.
type Kind string

// The kinds of message.
const (
	KindAsked    Kind = "asked"    // approvals wait
	KindReminder Kind = "reminder" // they still do, and expire soon
	KindDecided  Kind = "decided"  // they do not any more
	KindTest     Kind = "test"     // somebody wants to see whether messages arrive
)

// Note is a message as carriers get it; the webhook and the command get it as JSON.
type Note struct {
	Version int `json:"version"`
	// ID is the same for every try to send the message: whoever gets it twice drops one.
	ID    string    `json:"id"`
	Kind  Kind      `json:"kind"`
	At    time.Time `json:"at"` // when it was put together
	Count int       `json:"count"`
	// Risk is the highest of the approvals.
	Risk  core.Risk `json:"risk,omitempty"`
	Title string    `json:"title"`
	Text  string    `json:"text"` // some lines, without markup
	// Link opens what waits in a browser that is signed in; it decides nothing, and stands
	// at the end of Text, too.
	Link string `json:"link,omitempty"`
	// Approvals are the first of them, at most 20.
	Approvals []Item `json:"approvals"`
}

// Item is one approval of a message. What follows Decide is there with details only.
type Item struct {
	ID        core.ID            `json:"checkpoint_id"`
	RunID     core.ID            `json:"workflow_id"`
	RunName   string             `json:"workflow_name,omitempty"`
	Risk      core.Risk          `json:"risk"`
	State     core.ApprovalState `json:"state"`
	ExpiresAt *time.Time         `json:"expires_at,omitempty"`
	Decide    string             `json:"decide,omitempty"` // the command that decides it

	Type        core.ApprovalType `json:"approval_type,omitempty"`
	Tool        string            `json:"tool,omitempty"`
	Description string            `json:"description,omitempty"`
	Arguments   string            `json:"arguments,omitempty"`
	Workspace   string            `json:"workspace,omitempty"`
	DecidedBy   string            `json:"decided_by,omitempty"`
}

// Keeper keeps the document in which processes agree on what is to be sent: store.Notices.
type Keeper interface {
	Notices(ctx context.Context) (doc []byte, version int64, err error)
	SetNotices(ctx context.Context, doc []byte, version int64) error
}
