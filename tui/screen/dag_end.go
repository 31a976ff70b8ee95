package screen

import (
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/paint"
)

const (
	// maxEndLines bounds how much room an error takes on the panel, maxEndText
	// how much of it is looked at, in bytes. The whole of it is in the output of
	// pml workflows show.
	maxEndLines = 5
	maxEndText  = 2000
)

// endText says why a run ended without its result, as it came; empty for any
// other run.
func endText(run core.Run) string {
	switch run.State {
	case core.RunFailed, core.RunAborted, core.RunExpired:
	case core.RunRunning, core.RunWaiting, core.RunInterrupted, core.RunComplete:
		return ""
	}
	switch {
	case run.Error != nil && run.Error.Message != "":
		return string(run.Error.Code) + ": " + run.Error.Message
	case run.Error != nil:
		return string(run.Error.Code)
	case run.Abort != nil:
		return strings.TrimSuffix("aborted by "+run.Abort.By.Name()+": "+run.Abort.Reason, ": ")
	}
	return ""
}

// endLines is endText in at most n lines of w columns; an ellipsis says that
// there is more.
func endLines(run core.Run, w, n int, e *Env) []string {
	text := endText(run)
	if text == "" || n <= 0 || w <= 0 {
		return nil
	}
	text = strings.ReplaceAll(core.Visible(strings.TrimSpace(text), maxEndText, true), "\t", "    ")
	lines := paint.Wrap(text, w)
	if len(lines) <= n {
		return lines
	}
	last := &lines[n-1]
	more := e.Theme.Glyph.More
	*last = paint.Clip(*last, w-paint.Width(more), "") + more
	return lines[:n]
}
