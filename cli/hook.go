package cli

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

func hookCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "hook claude|codex",
		Short: "Answer the permission hook of Claude Code or Codex",
		Long: `Reads the event of a permission hook on stdin and answers in the host's JSON, for
the workspace of the folder that the event names. "pml init --hooks" writes it into
the host's settings.

Rules decide first: claude:Bash and codex:Bash are the hosts' own tools in
permissions.allow, ask and deny, with "where" on their arguments (args.command,
args.file_path). A rule lets a call through only where its pattern names the host:
"*" does not. Before a call (PreToolUse) a call that no rule speaks of is left to the
host. Where the host is about to ask (PermissionRequest), or a rule says ask, the
question comes into the inbox as host_permission. A person decides it, in pml tui or
with pml approve, whatever approvals.decider says; an agent cannot.

pml waits for as long as hooks.wait (50s). Without an answer by then, and whatever
else goes wrong, the host asks by itself as it does without pml: before a call the
answer is "ask", for Codex and where the host asks already it is none. The exit code
is 0; stderr says why.`,
		Example: `  pml init --hooks              # writes it into the settings of the hosts
  pml hook claude < event.json  # what the rules say about a call; the event:
    # {"hook_event_name": "PreToolUse", "cwd": "/home/me/project",
    #  "tool_name": "Bash", "tool_input": {"command": "npm test"}}
  pml approve                   # decides what waits, at a terminal`,
		Args:              app.ExactArgs("claude|codex"),
		ValidArgsFunction: app.CompleteFixed(core.AskingHosts...),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(core.AskingHosts, args[0]) {
				return app.Usagef("pml answers hooks of %s, not of %q", strings.Join(core.AskingHosts, " and "), core.Visible(args[0], 60, false)).WithNext("pml", "hook", "--help")
			}
			if a.StdinTTY {
				return app.Usagef("pml hook reads an event of an agent's host, which starts it; pml init --hooks tells the host").WithNext("pml", "hook", "--help")
			}
			return answerHook(cmd.Context(), a, args[0], cmd.InOrStdin())
		},
	}
}

// answerHook answers one event. What goes wrong is said beside the answer: a host takes
// no answer from a command that fails.
func answerHook(ctx context.Context, a *app.App, host string, in io.Reader) error {
	event, err := readHookEvent(in)
	if err != nil {
		a.Say("pml hook: %s", core.Visible(core.AsError(err).Message, 2000, false))
		return a.Write(event.says(host, api.HostAnswer{Effect: api.HostAsk, Reason: "pml could not read the event"}))
	}
	if !event.concerns() {
		return nil
	}
	answer, err := askedByHook(ctx, a, host, event)
	if err != nil {
		e := core.AsError(err)
		a.Say("pml hook: %s", core.Visible(e.Message, 2000, false))
		answer = api.HostAnswer{Effect: api.HostAsk, Reason: "pml could not answer: " + core.Visible(e.Message, 300, false)}
	}
	if err := a.CloseBackend(); err != nil {
		a.Say("pml hook: %s", core.Visible(core.AsError(err).Message, 2000, false))
	}
	return a.Write(event.says(host, answer))
}

func askedByHook(ctx context.Context, a *app.App, host string, event hookEvent) (api.HostAnswer, error) {
	a.Folder = event.Folder
	b, err := a.Backend(ctx)
	if err != nil {
		return api.HostAnswer{}, err
	}
	return b.HostMay(ctx, api.HostCall{
		Host: host, Tool: event.Tool, Args: event.Args, Folder: event.Folder, Asking: event.asking(),
		Client: core.NewClient(map[string]string{core.HostClaude: "claude-code", core.HostCodex: "codex"}[host], "", ""),
	})
}

// The events of hooks that pml answers.
const (
	hookBefore = "PreToolUse"        // before each call
	hookAsking = "PermissionRequest" // where the host would ask a person
)

// hookEvent is what of an event of Claude Code or Codex matters here. Both have the
// same names for it.
type hookEvent struct {
	Name   string          `json:"hook_event_name"`
	Folder string          `json:"cwd"`
	Tool   string          `json:"tool_name"`
	Args   json.RawMessage `json:"tool_input"`
}

// maxHookEvent bounds an event: a host may write a whole file in one call.
const maxHookEvent = 16 << 20

// readHookEvent reads an event; what it could read of one that is none it returns beside
// the error.
func readHookEvent(in io.Reader) (hookEvent, error) {
	var e hookEvent
	raw, err := io.ReadAll(io.LimitReader(in, maxHookEvent+1))
	switch {
	case err != nil:
		return e, core.Errorf(core.CodeInvalidArguments, "the event cannot be read: %w", err)
	case len(raw) > maxHookEvent:
		err = core.Errorf(core.CodeTooLarge, "the event is longer than 16 MiB")
	default:
		if bad := json.Unmarshal(raw, &e); bad != nil {
			err = core.Errorf(core.CodeInvalidArguments, "the event is not the JSON of a hook: %w", bad)
		}
	}
	if err == nil && e.concerns() && (e.Tool == "" || len(e.Args) == 0) {
		err = core.Errorf(core.CodeInvalidArguments, "the event names no tool_name with a tool_input")
	}
	return e, err
}

// concerns reports whether it is an event that pml answers. Dialogs that ask for more
// than a yes are the host's own.
func (e hookEvent) concerns() bool {
	own := e.Tool == "AskUserQuestion" || e.Tool == "ExitPlanMode"
	return e.Name == hookBefore || e.asking() && !own
}

func (e hookEvent) asking() bool { return e.Name == hookAsking }

// hookOutput is an answer as both hosts read it.
type hookOutput struct {
	Specific hookSpecific `json:"hookSpecificOutput"`
}

type hookSpecific struct {
	Event    string        `json:"hookEventName"`
	Before   string        `json:"permissionDecision,omitempty"`
	Reason   string        `json:"permissionDecisionReason,omitempty"`
	Decision *hookDecision `json:"decision,omitempty"`
}

type hookDecision struct {
	Behavior string `json:"behavior"`
	Message  string `json:"message,omitempty"`
}

// says is an answer to the event in the host's JSON, empty for none. Where the host is
// about to ask, it does so without an answer; and before a call Codex takes no other
// answer than a no. An event that cannot be read counts as one before a call.
func (e hookEvent) says(host string, a api.HostAnswer) string {
	out := hookSpecific{Event: e.Name}
	reason := "pml: " + core.Visible(a.Reason, 1000, false)
	switch {
	case a.Effect == api.HostSilent, e.asking() && a.Effect == api.HostAsk, host == core.HostCodex && !e.asking() && a.Effect != api.HostDeny:
		return ""
	case e.asking() && a.Effect == api.HostAllow:
		out.Decision = &hookDecision{Behavior: string(a.Effect)}
	case e.asking():
		out.Decision = &hookDecision{Behavior: string(a.Effect), Message: reason}
	default:
		out.Event, out.Before, out.Reason = hookBefore, string(a.Effect), reason
	}
	raw, err := json.Marshal(hookOutput{out})
	if err != nil {
		return "" // texts always are JSON
	}
	return string(raw) + "\n"
}
