package gate

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/upstream/workspace"
)

// lossy returns the mark of a redacted value that a call would write into a file
// of the workspace; empty for none. Who reads a file that holds a value of .env
// gets the mark in its place, and a file that is written back so has lost the
// value for good. Other servers get marks as any text: what is redacted may be
// sent on.
func (s *settings) lossy(server, tool string, args json.RawMessage) string {
	if server != Builtin || !slices.Contains([]string{"write_file", "edit_file"}, tool) || !strings.ContainsAny(string(args), "«\\") {
		return ""
	}
	var a struct{ Content, Old, New string }
	if json.Unmarshal(args, &a) != nil {
		return "" // which the tool refuses
	}
	return s.redact.Mark(a.Content, a.Old, a.New)
}

// guarded is the path that a call of the workspace server would change and that no tool
// changes; empty for none.
func guarded(server, tool string, args json.RawMessage) string {
	if server != Builtin {
		return ""
	}
	return workspace.Guarded(tool, args)
}

func wouldLose(tool, mark string) *core.Error {
	shown := core.Visible(mark, 120, false)
	return core.Errorf(core.CodeInvalidArguments, "%s is refused: the text holds %s, which pml shows in the place of a value of .env or of a key; the file would get the mark and lose the value. Change other parts of the file with workspace:edit_file, or let a person write this one",
		tool, shown)
}
