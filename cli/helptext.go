package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
)

// helpWidth is how wide help is, so that it fits the narrowest usual terminal.
const helpWidth = 80

// setHelp makes help fit helpWidth, with headings that stand out on a terminal.
func setHelp(a *app.App, root *cobra.Command) {
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "FlagUsages |", fmt.Sprintf("FlagUsagesWrapped %d |", helpWidth)))
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		_ = a.Write(helpText(a, cmd)) // help has nobody to tell that it could not be written
	})
}

func helpText(a *app.App, cmd *cobra.Command) string {
	var b strings.Builder
	long := cmd.Long
	if long == "" {
		long = cmd.Short
	}
	for part := range strings.SplitSeq(strings.TrimSpace(long), "\n\n") {
		b.WriteString(refill(part) + "\n\n")
	}
	if !cmd.Runnable() && !cmd.HasSubCommands() {
		return strings.TrimSuffix(b.String(), "\n")
	}
	for line := range strings.Lines(cmd.UsageString()) {
		text := strings.TrimRight(line, "\n")
		if strings.HasSuffix(text, ":") && !strings.HasPrefix(text, " ") {
			line = a.Paint(layout.Bold, text) + "\n"
		}
		b.WriteString(line)
	}
	return b.String()
}

// refill breaks a paragraph anew where one of its lines is too wide, so that no
// line of a word or two is left in its middle. Lines that are indented stay.
func refill(part string) string {
	lines := strings.Split(part, "\n")
	wide := slices.ContainsFunc(lines, func(l string) bool { return layout.Width(l) > helpWidth })
	indented := slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, " ") })
	if wide && !indented {
		lines = []string{strings.Join(lines, " ")}
	}
	for i, l := range lines {
		lines[i] = refillLine(l)
	}
	return strings.Join(lines, "\n")
}

// refillLine breaks a line that is too wide. What is indented goes on below its text: below
// the second column, where it has one.
func refillLine(line string) string {
	text := strings.TrimLeft(line, " ")
	at := len(line) - len(text)
	if _, second, two := strings.Cut(text, "  "); two && at > 0 {
		text = strings.TrimLeft(second, " ")
		at = len(line) - len(text)
	}
	return line[:at] + strings.Join(layout.Wrap(text, helpWidth-at), "\n"+strings.Repeat(" ", at))
}

// topics are pages of help about no command.
func topics() []*cobra.Command {
	return []*cobra.Command{
		{Use: "programs", Short: "How scripts and DAGs are written", Long: programsText, Example: "  pml plan build.yaml\n  pml execute build.yaml"},
		{Use: "conditions", Short: "The conditions of rules of permissions (--where)", Long: conditionsText, Example: "  pml permissions ask fs:write_file --where \"size(args.content) > 5000\""},
		{Use: "json", Short: "The fields of what --json prints", Long: jsonText, Example: "  pml workflows ls --json | jq -r '.items[] | [.id, .state, .name] | @tsv'"},
		{Use: "exit-codes", Short: "What the exit codes of pml mean", Long: exitCodesText(), Example: "  pml execute s.ts || echo $?"},
		{Use: "environment", Short: "The environment variables that pml reads", Long: environmentText, Example: "  PML_HOME=/tmp/try pml doctor"},
	}
}

func exitCodesText() string {
	var b strings.Builder
	b.WriteString("pml ends with one of these codes. Scripts may rely on them.\n\n")
	for _, m := range app.ExitMeanings {
		fmt.Fprintf(&b, "  %-4d %s\n", m.Code, m.Text)
	}
	b.WriteString(exitText)
	for _, m := range app.ExitMeanings {
		names := codesOf(m.Code)
		if len(names) == 0 {
			continue
		}
		for i, line := range layout.Wrap(strings.Join(names, ", "), helpWidth-7) {
			head := ""
			if i == 0 {
				head = strconv.Itoa(m.Code)
			}
			fmt.Fprintf(&b, "  %-4s %s\n", head, line)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// codesOf are the codes of errors that a command ends with an exit code for.
func codesOf(exit int) (names []string) {
	for code, n := range app.ExitCodes {
		if n == exit {
			names = append(names, string(code))
		}
	}
	slices.Sort(names)
	return names
}

const exitText = `
A run that failed ends with 1 where its error has 2, 3 or 13: those say that
nothing was run. After 8 "pml approve" decides what waits; where people decide
(approvals.decider is human) that takes a terminal or the PIN, and a program waits
with "pml continue ID --on-approval wait". With --json the error has its code, the
exit code and what to do next.

The exit code of each code of an error (error.code, error_code):

`

const environmentText = `pml reads these variables; flags come before them, and they before the files.

  PML_HOME       pml's own folder (default ~/.pml); --home
  PML_WORKSPACE  the workspace; default: the current folder, or the nearest one
                 above it that has a .pml.json
  PML_SERVER     the URL of a pml server; --server
  PML_API_KEY    the key for that server
  PML_STORE      where pml serve keeps runs: a postgres:// URL
  PML_ENGINE     the same: a temporal:// address (needs pml-temporal)
  PML_TEMPORAL_API_KEY
                 the key of Temporal's API, where the service wants one
  PML_NO_AUTOSTART
                 1: no server is started in the background; lists leave out what
                 it keeps, and say so
  PML_PLAIN      1 makes pml tui a dialogue of lines
  PML_LOG        what is logged to stderr: debug, info, warn, error
  NO_COLOR       anything: no colour; --no-color
  TERM           dumb: no colour, and no line is redrawn
  EDITOR         the editor for arguments and texts

Servers get only the variables that their entries name, and those of .env.
"pml config show" prints what all of it adds up to.`
