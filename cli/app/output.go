package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/cli/progress"
	"github.com/casys-ai/pml/core"
)

// The output formats.
const (
	formatTable = "table"
	formatWide  = "wide"
	FormatJSON  = "json"
	FormatJSONL = "jsonl"
	FormatYAML  = "yaml"
)

// Formats are the output formats, as help lists them.
var Formats = []string{formatTable, formatWide, FormatJSON, FormatJSONL, FormatYAML}

// Format is the output format that the flags ask for.
func (a *App) Format() string {
	switch a.Flags.Output {
	case FormatJSONL, FormatYAML, FormatJSON:
		return a.Flags.Output
	}
	if a.Flags.JSON {
		return FormatJSON
	}
	return a.Flags.Output
}

// Human reports whether output is for reading, not for a program.
func (a *App) Human() bool { return a.Format() == formatTable || a.Format() == formatWide }

// Write sends text to standard output.
func (a *App) Write(s string) error {
	if _, err := io.WriteString(a.Stdout, s); err != nil {
		return core.Errorf(core.CodeInternal, "cannot write the output: %w", err)
	}
	return nil
}

// Print writes one value: in a format for programs as it is, else by human.
func (a *App) Print(v any, human func(w *strings.Builder)) error {
	if a.Human() {
		var b strings.Builder
		human(&b)
		return a.Write(b.String())
	}
	return a.Encode(v, a.Format())
}

// Encode writes one value as JSON or YAML.
func (a *App) Encode(v any, format string) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if format == FormatJSON {
		enc.SetIndent("", "  ")
	}
	if err := enc.Encode(v); err != nil {
		return core.Errorf(core.CodeInternal, "cannot encode the output: %w", err)
	}
	out := b.String()
	if format == FormatYAML {
		y, err := layout.YAML(b.Bytes())
		if err != nil {
			return err
		}
		out = y
	}
	return a.Write(a.SafeJSON(out))
}

// SafeJSON escapes what a terminal would act upon or hide. Encoded text holds
// such runes inside strings only, where an escape means the same.
func (a *App) SafeJSON(s string) string {
	if !a.StdoutTTY {
		return s
	}
	return escapeJSON(s)
}

// SayJSON puts a value on a line of stderr, for a program; on a terminal nothing of it
// can act.
func (a *App) SayJSON(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return core.Errorf(core.CodeInternal, "cannot encode what is said: %w", err)
	}
	a.Say("%s", escapeJSON(string(raw)))
	return nil
}

func escapeJSON(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n' || r < 0x7f || core.Visible(string(r), 0, true) == string(r):
			b.WriteRune(r)
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// Note tells a person something beside the result. Programs do not get it.
func (a *App) Note(format string, args ...any) {
	if a.Flags.Quiet || !a.Human() {
		return
	}
	a.Say(format, args...)
}

// PrintResult writes the value that a script returned: a string as it is,
// anything else as indented JSON, nothing when there is no result.
func (a *App) PrintResult(raw json.RawMessage) error {
	if len(raw) == 0 {
		return nil
	}
	var s string
	if raw[0] == '"' && json.Unmarshal(raw, &s) == nil {
		if a.StdoutTTY {
			s = core.Visible(s, 0, true)
		}
		return a.Write(strings.TrimSuffix(s, "\n") + "\n")
	}
	return a.Write(a.SafeJSON(layout.Indent(raw)) + "\n")
}

// Line makes a one-line text for print.
func Line(format string, args ...any) func(*strings.Builder) {
	return func(w *strings.Builder) { fmt.Fprintf(w, format+"\n", args...) }
}

// LineLimit is where lines of tables are cut: on a terminal only.
func (a *App) LineLimit() int {
	if a.StdoutTTY && a.Format() != formatWide {
		return a.Width()
	}
	return 0
}

// StartProgress shows progress of a run from now on, as far as flags and terminal
// want it.
func (a *App) StartProgress() {
	a.WarnAtOnce()
	if !a.Flags.Quiet && (!a.AsJSON() || a.StderrTTY) {
		a.Progress.Start()
	}
}

// Busy tells what a command that takes long is doing; end must be called before
// anything else is written.
func (a *App) Busy(text string) *progress.Busy {
	b := progress.NewBusy(a.screen(), !a.Flags.Quiet && a.Human(), text)
	a.busy.Store(b)
	return b
}

// working shows what is being installed where the command shows what it does.
func (a *App) working(text string) {
	if b := a.busy.Load(); b != nil {
		b.Phase(text)
		return
	}
	a.Progress.Phase(text)
}

// screen is standard error for what is redrawn.
func (a *App) screen() progress.Screen {
	term, _ := a.Environ("TERM")
	return progress.Screen{W: a.Stderr, Width: a.Width, Now: a.Now, Redraws: a.StderrTTY && term != "dumb"}
}

// Say tells something on stderr that belongs to the outcome, quiet or not.
func (a *App) Say(format string, args ...any) {
	a.Progress.Clear()
	io.WriteString(a.Stderr, a.folded(fmt.Sprintf(format, args...))+"\n")
}

// folded breaks a message for a person where words end, so that the terminal does not
// break it inside of them. What is indented stays as it is, and so does a command: it is
// there to be copied.
func (a *App) folded(text string) string {
	if !a.StderrTTY {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if !strings.HasPrefix(l, " ") && !strings.HasPrefix(l, "next: ") {
			lines[i] = strings.Join(layout.Wrap(l, a.Width()), "\n")
		}
	}
	return strings.Join(lines, "\n")
}

// Below is a line under a message on stderr, indented. On a terminal it is broken where
// words end, and goes on one step deeper.
func Below(a *App, text string) string {
	width := 0
	if a.StderrTTY {
		width = max(a.Width()-4, 0)
	}
	return "  " + strings.Join(layout.Wrap(text, width), "\n    ") + "\n"
}

// SayNext names the command that comes next.
func (a *App) SayNext(argv ...string) {
	a.Say("next: %s", a.PaintErr(layout.Ident, layout.ShellJoin(shortIDs(argv))))
}
