package core

import "slices"

// The names by which rules know agents' hosts that ask pml before calls of their own
// tools: claude:Bash is Claude Code's tool Bash.
const (
	HostClaude = "claude"
	HostCodex  = "codex"
)

// AskingHosts are the agents' hosts that ask pml.
var AskingHosts = []string{HostClaude, HostCodex}

// OfHost reports whether who asks for a call is the permission hook of an agent's host:
// the host makes the call by itself, and pml only says whether it may.
func OfHost(by Actor, tool string) bool {
	server, _, ok := SplitTool(tool)
	return ok && by.Via == ViaHook && slices.Contains(AskingHosts, server)
}
