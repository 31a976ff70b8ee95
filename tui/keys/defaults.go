package keys

// scope is where an action means something. Two actions can share a key where
// they share no scope.
type scope uint

const (
	runs  scope = 1 << iota
	inbox       // approvals, and an open card
	dag
	task
	events
	servers
	flows
	bounds     // those of a loop, on a card
	everywhere = runs | inbox | dag | task | events | servers | flows | bounds
)

// scopeNames are the scopes as help calls them.
var scopeNames = []struct {
	scope scope
	name  string
}{
	{runs, "runs"}, {inbox, "approvals, card"}, {bounds, "bounds"}, {dag, "DAG"}, {task, "task"}, {events, "events"}, {servers, "servers"}, {flows, "flows"},
}

// binding is an action as it is without configuration.
type binding struct {
	action Action
	scope  scope
	label  string // what it does, in a few words
	keys   []string
}

// bindings are all actions, in the order in which help runs them.
var bindings = []binding{
	{Approve, inbox | bounds | dag | task, "approve once", []string{"a"}},
	{ApproveRemember, inbox, "approve and remember, or all marked", []string{"A"}},
	{Bounds, inbox | bounds, "approve the calls of a loop, within bounds", []string{"b"}},
	{Deny, inbox | dag | task, "deny", []string{"d"}},
	{Message, inbox, "deny with a message", []string{"m"}},
	{Abort, runs | inbox | dag | task, "abort the run", []string{"x"}},
	{Replan, runs | inbox | dag, "replan in $EDITOR", []string{"p"}},
	{MoreTime, inbox, "5 more minutes", []string{"+"}},
	{MoreCalls, bounds, "more calls within the bounds", []string{"+"}},
	{FewerCalls, bounds, "fewer calls within the bounds", []string{"-"}},
	{Again, runs | inbox | dag | task, "retry or continue a run, ask again", []string{"R"}},
	{Restart, servers, "start a server anew", []string{"R"}},
	{Trail, inbox | bounds, "audit trail", []string{"i"}},

	{Up, everywhere, "up", []string{"k", "up"}},
	{Down, everywhere, "down", []string{"j", "down"}},
	{Left, everywhere, "left", []string{"h", "left"}},
	{Right, everywhere, "right", []string{"l", "right"}},
	{First, everywhere, "first", []string{"g", "home"}},
	{Last, everywhere, "last", []string{"G", "end"}},
	{HalfUp, everywhere, "half a page up", []string{"ctrl+u"}},
	{HalfDown, everywhere, "half a page down", []string{"ctrl+d"}},
	{PageUp, everywhere, "page up", []string{"pgup", "ctrl+b"}},
	{PageDown, everywhere, "page down", []string{"pgdown", "ctrl+f"}},
	{Open, everywhere, "open", []string{"enter"}},
	{Back, everywhere, "back", []string{"esc"}},
	{NextPanel, everywhere, "next panel", []string{"tab"}},
	{PreviousPanel, everywhere, "previous panel", []string{"shift+tab"}},
	{Panel1, everywhere, "runs", []string{"1"}},
	{Panel2, everywhere, "approvals", []string{"2"}},
	{Panel3, everywhere, "DAG", []string{"3"}},
	{Panel4, everywhere, "task", []string{"4"}},
	{Panel5, everywhere, "events", []string{"5"}},
	{Panel6, everywhere, "audit", []string{"6"}},
	{Panel7, everywhere, "servers", []string{"7"}},
	{Panel8, everywhere, "hosts", []string{"8"}},
	{Panel9, everywhere, "flows", []string{"9"}},

	{NewFlow, flows, "new flow from a template", []string{"+"}},
	{AddNode, flows, "add a node behind", []string{"a"}},
	{AddBefore, flows, "add a node before", []string{"A"}},
	{ConnectTo, flows, "connect with another node", []string{"c"}},
	{Disconnect, flows, "take an edge away", []string{"D"}},
	{MoveNode, flows, "move behind another node", []string{"m"}},
	{LabelNode, flows, "name the node", []string{"r"}},
	{DeleteNode, flows, "delete the node", []string{"d", "delete"}},
	{Undo, flows, "undo", []string{"u"}},
	{Redo, flows, "redo", []string{"U"}},
	{EditFlow, flows, "change the flow's text in $EDITOR", []string{"E"}},
	{TryFlow, flows, "test the flow on a call", []string{"t"}},
	{TrustFlows, servers | flows, "look at the workspace's files and trust them", []string{"T"}},
	{SwitchFlow, flows, "enable or disable the flow", []string{"x"}},
	{FlowLink, dag | task | flows, "flow run of the call, and back", []string{"L"}},

	{Install, servers, "decide what a server needs, and install it", []string{"I"}},
	{Connect, servers, "sign in to the server", []string{"C"}},
	{ServerLog, servers, "log of the server", []string{"L"}},

	{Filter, everywhere, "filter or search", []string{"/"}},
	{NextMatch, everywhere, "next match, or node with a fault", []string{"n"}},
	{PreviousMatch, everywhere, "previous match", []string{"N"}},
	{Sort, runs | inbox, "sort", []string{"s"}},
	{SortReverse, runs | inbox, "reverse the order", []string{"S"}},
	{Mark, runs | inbox | bounds, "mark", []string{"space"}},
	{MarkRange, runs | inbox, "mark a range", []string{"v"}},
	{Zoom, everywhere, "zoom the panel", []string{"z", "f"}},
	{Graph, dag, "boxes or list", []string{"v"}},
	{Fold, dag, "fold all", []string{"-"}},
	{Alike, inbox, "what is alike in one row, or in many", []string{"="}},
	{Unfold, dag, "unfold all", []string{"="}},
	{PreviousTab, task | flows, "previous tab, or later flow run", []string{"["}},
	{NextTab, task | flows, "next tab, or earlier flow run", []string{"]"}},
	{RunResult, runs | dag | task, "result of the run", []string{"r"}},
	{Follow, dag | task | events, "follow", []string{"F"}},
	{Wrap, task | inbox, "wrap long lines", []string{"w"}},
	{Times, task | events, "times", []string{"t"}},
	{Pause, events, "pause", []string{"space"}},
	{Types, events, "types", []string{"T"}},
	{OnlyThis, events, "only this run", []string{"W"}},

	{CopyID, everywhere, "copy the id", []string{"y"}},
	{CopyAll, everywhere, "copy as JSON", []string{"Y"}},
	{CopyCommand, everywhere, "copy as a command", []string{"ctrl+y"}},
	{Edit, everywhere, "view or edit in $EDITOR", []string{"e"}},
	{Save, everywhere, "save, or open the URL", []string{"o"}},
	{Halt, everywhere, "halt all calls, or let them go on", []string{"!"}},
	{Palette, everywhere, "command; up brings back earlier ones (history)", []string{":"}},
	{Help, everywhere, "help", []string{"?"}},
	{Refresh, everywhere, "read again", []string{"ctrl+r"}},
	{Redraw, everywhere, "redraw", []string{"ctrl+l"}},
	{Suspend, everywhere, "suspend", []string{"ctrl+z"}},
	{Quit, everywhere, "quit", []string{"q"}},
	{QuitNow, everywhere, "quit now", []string{"ctrl+c"}},
}
