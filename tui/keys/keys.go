// Package keys says which key does what: actions have names, each a list of
// keys, and a person can bind them anew.
package keys

// Key is one key press.
type Key struct {
	// Name is as in a binding: "a", "A", "?", "space", "enter", "esc", "tab",
	// "shift+tab", "up", "pgdown", "home", "backspace", "ctrl+d", "alt+x", "f1".
	Name string
	// Text is what it types into an input, empty for a key that types nothing.
	Text string
	// Paste is set for text that was pasted: it never is a command.
	Paste bool
	// Burst is set beside Paste where the terminal did not call it a paste: so
	// many letters came at once, which can be quick typing over a slow line.
	Burst bool
}

// Action is something that a key does.
type Action string

// The actions, as configurations name them.
const (
	Quit          Action = "quit"
	QuitNow       Action = "quit_now"
	Suspend       Action = "suspend"
	Redraw        Action = "redraw"
	Refresh       Action = "refresh"
	Help          Action = "help"
	Palette       Action = "palette"
	NextPanel     Action = "next_panel"
	PreviousPanel Action = "previous_panel"
	Panel1        Action = "panel_1" // workflows
	Panel2        Action = "panel_2" // approvals
	Panel3        Action = "panel_3" // dag
	Panel4        Action = "panel_4" // task
	Panel5        Action = "panel_5" // events
	Panel6        Action = "panel_6" // audit
	Panel7        Action = "panel_7" // servers
	Panel8        Action = "panel_8" // hosts
	Panel9        Action = "panel_9" // flows
	Up            Action = "up"
	Down          Action = "down"
	Left          Action = "left"
	Right         Action = "right"
	First         Action = "first"
	Last          Action = "last"
	HalfUp        Action = "half_page_up"
	HalfDown      Action = "half_page_down"
	PageUp        Action = "page_up"
	PageDown      Action = "page_down"
	Open          Action = "open"
	Back          Action = "back"
	Filter        Action = "filter"
	NextMatch     Action = "next_match"
	PreviousMatch Action = "previous_match"
	Sort          Action = "sort"
	SortReverse   Action = "sort_reverse"
	Mark          Action = "mark"
	MarkRange     Action = "mark_range"
	Zoom          Action = "zoom"
	CopyID        Action = "copy"
	CopyAll       Action = "copy_json"
	CopyCommand   Action = "copy_command"
	Edit          Action = "edit"  // in $EDITOR: change the arguments of a call, view anything else
	Alike         Action = "alike" // approvals that are alike, in one row or each in its own
	Save          Action = "save"  // or open a URL
	NextTab       Action = "next_tab"
	PreviousTab   Action = "previous_tab"
	RunResult     Action = "run_result"
	Follow        Action = "follow"
	Wrap          Action = "wrap"
	Times         Action = "times"
	Fold          Action = "fold"
	Unfold        Action = "unfold"
	Graph         Action = "graph" // boxes or list
	Pause         Action = "pause"
	Types         Action = "types"
	OnlyThis      Action = "only_this"

	Approve         Action = "approve"
	ApproveRemember Action = "approve_remember"
	Bounds          Action = "bounds"      // of a loop, on the card of one of its calls
	MoreCalls       Action = "more_calls"  // within the bounds
	FewerCalls      Action = "fewer_calls" // within the bounds
	Deny            Action = "deny"
	Message         Action = "message"
	Abort           Action = "abort"
	Replan          Action = "replan"
	MoreTime        Action = "more_time"
	Again           Action = "again" // retry a failed run, ask again for what expired
	Trail           Action = "trail"
	Halt            Action = "halt" // all calls, or let them go on

	Restart   Action = "restart"    // a server
	Install   Action = "install"    // the package of a server
	Connect   Action = "connect"    // a server that wants a sign-in
	ServerLog Action = "server_log" // what a server wrote last

	SwitchFlow Action = "switch_flow" // enable or disable it
	FlowLink   Action = "flow_link"   // from a call to its flow run, and back
	NewFlow    Action = "new_flow"    // from a template
	AddNode    Action = "add_node"    // behind the selected one
	AddBefore  Action = "add_before"
	ConnectTo  Action = "connect_to"
	Disconnect Action = "disconnect"
	MoveNode   Action = "move_node"
	LabelNode  Action = "label_node"
	DeleteNode Action = "delete_node"
	Undo       Action = "undo"
	Redo       Action = "redo"
	EditFlow   Action = "edit_flow" // its text, in $EDITOR
	TryFlow    Action = "try_flow"  // on a call that is not made
	TrustFlows Action = "trust"     // the workspace's files, after looking at them
)
