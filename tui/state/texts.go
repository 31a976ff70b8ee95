package state

import (
	"strings"

	"github.com/casys-ai/pml/core"
)

// maxSaid bounds how much of the end of a text is kept that a model writes.
const maxSaid = 16 << 10

// said is what the model of one run writes, as far as it has come.
type said struct {
	run  core.ID
	call string
	text string
}

// PutPiece takes a piece of what the model of a run writes. That of one run is known at a
// time: the one that is looked at.
func (s *State) PutPiece(e core.Event) {
	if s.said.run != e.RunID || s.said.call != e.TaskID || core.PieceOf(e).Offset == 0 {
		s.said = said{run: e.RunID, call: e.TaskID}
	}
	text := s.said.text + core.Visible(e.Message, 0, true)
	if over := len(text) - maxSaid; over > 0 {
		text = strings.ToValidUTF8(text[over:], "")
	}
	s.said.text = text
	s.version++
}

// Said is the end of what the model of a run writes in a call, empty where that is not
// known.
func (s *State) Said(run core.ID, call string) string {
	if s.said.run != run || s.said.call != call {
		return ""
	}
	return s.said.text
}
