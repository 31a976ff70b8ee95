package decide

import (
	"encoding/json"
	"strings"

	"github.com/casys-ai/pml/core"
)

// Choice is a decision as it is about to be taken.
type Choice struct {
	Verb   Verb
	Reason string
	Answer *core.Answer
}

// Command returns the command line that takes the same decision, bound to the
// same digest. It is for a person to copy: see Shell. For a call in doubt that is
// approved without saying how, it is one of two: see Line.
func Command(a core.Approval, c Choice) []string {
	if approves(c.Verb) && c.Answer != nil && c.Answer.Shape != nil {
		return boundsCommand(a, *c.Answer.Shape)
	}
	argv := []string{"pml", "continue", a.RunID.Short()}
	switch {
	case c.Verb == Deny:
		argv = append(argv, "--deny")
	case c.Verb == Abort:
		argv = append(argv, "--deny", "--abort")
	case c.Answer != nil && c.Answer.InDoubt == core.RunAgain:
		argv = append(argv, "--answer", "run-again")
	case c.Answer != nil && c.Answer.InDoubt == core.SkipResult:
		argv = append(argv, "--answer", "skip")
		if len(c.Answer.Result) > 0 && string(c.Answer.Result) != string(core.Null) {
			argv = append(argv, "--result", compact(c.Answer.Result))
		}
	case a.Type == core.ApproveInDoubt: // a plain yes is refused
		argv = append(argv, "--answer", "run-again")
	default:
		argv = append(argv, "--approve")
	}
	argv = append(argv, "--approval", a.ID.Short())
	if a.Digest != "" {
		argv = append(argv, "--expect-digest", a.Digest)
	}
	if approves(c.Verb) && c.Answer != nil {
		if c.Answer.Remember != "" {
			argv = append(argv, "--remember", string(c.Answer.Remember))
		}
		if c.Answer.Scripts {
			argv = append(argv, "--allow-scripts")
		}
	}
	if c.Reason != "" {
		argv = append(argv, "--reason", c.Reason)
	}
	return argv
}

// Line is the command of a choice as it is typed into a shell. Where it is one of
// two, a comment names the other.
func Line(a core.Approval, c Choice) string {
	line := Shell(Command(a, c))
	if a.Type == core.ApproveInDoubt && approves(c.Verb) && c.Answer == nil {
		line += " # one of two; the other: --answer skip --result null"
	}
	return line
}

func approves(v Verb) bool { return v == Approve || v == Remember }

// compact is a JSON value on one line. A text that begins with @ would name a
// file, which no JSON value does.
func compact(raw json.RawMessage) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw)
	}
	return strings.Join(strings.FieldsFunc(string(raw), func(r rune) bool { return r == '\n' || r == '\r' }), "")
}

// Shell returns a command line as it is typed into a POSIX shell. Control
// characters are shown as escapes: what is pasted must not press keys.
func Shell(argv []string) string {
	words := make([]string, len(argv))
	for i, w := range argv {
		words[i] = quote(core.Visible(w, 0, false))
	}
	return strings.Join(words, " ")
}

func quote(w string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@=,+%", r)
	}
	if w != "" && !strings.ContainsFunc(w, func(r rune) bool { return !plain(r) }) {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}
