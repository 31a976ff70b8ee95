package screen

import (
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/keys"
)

// help is the help over a card: what its buttons do, then how it is read. The keys of
// the panel under it do not count while it is open.
func (c *card) help(e *Env) overlay {
	h := &help{panel: "card"}
	c.offer(e)
	for _, b := range c.buttons {
		h.own = append(h.own, helpRow{keys: b.key, text: b.label})
	}
	add := func(text string, own string, acts ...keys.Action) {
		words := []string{}
		if own != "" {
			words = append(words, own)
		}
		for _, act := range acts {
			if bound := e.Keys.Keys(act); len(bound) > 0 {
				words = append(words, bound[0])
			}
		}
		if len(words) > 0 {
			h.own = append(h.own, helpRow{keys: strings.Join(words, " "), text: text})
		}
	}
	add("next page: approve unlocks when all was on screen", "space", keys.PageDown)
	if c.rule.Approval().Type == core.ApproveTool {
		add("the arguments as JSON, and back", "J")
		add("change the arguments in $EDITOR, then approve", "", keys.Edit)
	} else {
		add("look at it in $EDITOR", "", keys.Edit)
	}
	add("back; nothing is decided", "", keys.Back)
	add("down and up a line", "", keys.Down, keys.Up)
	add("page up", "", keys.PageUp)
	add("beginning, end: what is jumped over was not shown", "", keys.First, keys.Last)
	add("next button; its letter presses it, enter does not", "", keys.NextPanel)
	add("the card in the whole window, or beside the list", "", keys.Zoom)
	add("5 more minutes to decide", "", keys.MoreTime)
	add("ask again, once it has expired", "", keys.Again)
	add("what happened to it: the audit trail", "", keys.Trail)
	add("copy the command that does the same", "", keys.CopyID)
	add("copy it as JSON", "", keys.CopyAll)
	return h
}
