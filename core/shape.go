package core

import (
	"encoding/json"
	"time"
)

// Shape is the bounds of one yes to many calls: those of one tool that one place of a
// script makes within one run. core/approval says what lies within them.
type Shape struct {
	Tool string `json:"tool"`
	// Place is where the script makes the calls, in the user's source.
	Place Position `json:"place"`
	// Max is how many calls it permits at most, the one that was asked about included.
	Max int `json:"max"`
	// Until is when it ends; nil: with the run.
	Until *time.Time `json:"until,omitempty"`
	// Risk is the highest risk of a call, that of the question it was the answer to.
	Risk Risk `json:"risk"`
	// Leaves permits calls that reach beyond the workspace, as the one that was asked
	// about does.
	Leaves bool `json:"leaves_workspace,omitempty"`
	// Fields bound the arguments, by name: a call has these, and no others.
	Fields []Bound `json:"fields"`
}

// Bound is what one argument of a call may be: a value, what a pattern matches, or any value
// of some types. Exactly one of Is, Matches and Types is set.
type Bound struct {
	Name string `json:"name"`
	// Is is the value that it has.
	Is json.RawMessage `json:"is,omitempty"`
	// Matches is a pattern for a text, in which * stands for any characters.
	Matches string `json:"matches,omitempty"`
	// Types are the types of JSON that it may have.
	Types []string `json:"types,omitempty"`
	// Size is how many characters the text, or another value as JSON, has at most; of Is it is 0.
	Size int `json:"size,omitempty"`
	// Optional: a call may lack it.
	Optional bool `json:"optional,omitempty"`
}

// Digest names the bounds: the same bounds have the same one, however they are written.
func (s Shape) Digest() (string, error) { return DigestOf(s) }
