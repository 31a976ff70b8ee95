package screen

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/paint"
)

// keysFound is which of the keys that an approval asks for are there by now.
type keysFound struct {
	id   core.ID
	text string // for the card
	all  bool
}

// WatchedKeys is the approval whose missing keys somebody looks at now: the card
// that is open, or what is selected in the inbox. It is empty when there is none,
// it has ended, or its keys are those of a server.
func (s *Screen) WatchedKeys(now time.Time) core.ID {
	id := core.ID("")
	for _, p := range s.places {
		if p.id == PanelApprovals {
			id = s.sel.Approval
		}
	}
	for _, o := range s.overlay {
		if c, ok := o.(*card); ok {
			id = c.id
		}
	}
	a, known := s.o.State.Approval(id)
	if !known || a.Type != core.ApproveKeys || a.Side == core.SideServer || a.StateAt(now) != core.ApprovalOpen {
		return ""
	}
	return id
}

// KeysFound takes the names of the missing keys of an approval that are there by
// now; nil where nobody can tell.
func (s *Screen) KeysFound(id core.ID, names []string) {
	a, known := s.o.State.Approval(id)
	var c struct {
		Keys []string `json:"missing_keys"`
	}
	if !known || names == nil || json.Unmarshal(a.Context, &c) != nil || len(c.Keys) == 0 {
		s.found = keysFound{}
		return
	}
	found := keysFound{id: id, all: true}
	words := make([]string, len(c.Keys))
	for i, name := range c.Keys {
		there := slices.Contains(names, name)
		found.all = found.all && there
		words[i] = core.Visible(name, 60, false) + ": " + map[bool]string{true: "yes", false: "no"}[there]
	}
	found.text = "found  " + strings.Join(words, "  ")
	if !found.all {
		found.text += ", watching .env of " + core.Visible(a.Workspace, 200, false)
	}
	s.found = found
}

// of is what to say of an approval; empty where nothing is known.
func (k keysFound) of(id core.ID) (string, paint.Style) {
	switch {
	case k.id != id:
		return "", paint.Style{}
	case k.all:
		return k.text, paint.Style{Role: paint.OK}
	}
	return k.text, paint.Style{Role: paint.Warn}
}
