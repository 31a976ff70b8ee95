package screen

import (
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/tui/flowedit"
	"github.com/casys-ai/pml/tui/state"
)

// Intent is something that a person wants and the screen cannot do itself. The
// program carries it out and reports back.
type Intent interface{ intent() }

// The intents.
type (
	// Quit ends the program.
	Quit struct{}
	// Suspend stops the program until the shell brings it back.
	Suspend struct{}
	// Redraw clears the terminal and draws all of it anew.
	Redraw struct{}
	// Refresh reads everything again.
	Refresh struct{}

	// Decide decides approvals one by one, each bound to the digest that was on
	// screen. Pin is what was typed where one is needed.
	Decide struct {
		Approvals []core.Approval
		Approve   bool
		Abort     bool // with Approve false: also abort the run
		Reason    string
		Answer    *core.Answer
		Pin       string
	}
	// AskRule wants the rule that would remember an approval; the answer comes
	// with Screen.ShowRule.
	AskRule struct{ Approval core.Approval }
	// Remember writes a rule that was shown, and then approves.
	Remember struct {
		Approval core.Approval
		Rule     api.Rule
		Pin      string
	}
	// Extend gives an approval more time.
	Extend struct {
		ID core.ID
		By time.Duration
	}
	// Renew asks again for an approval that expired.
	Renew struct{ ID core.ID }
	// Continue goes on with an interrupted run.
	Continue struct{ Run core.ID }
	// Retry runs the failed tasks of a run again.
	Retry struct{ Run core.ID }
	// Abort ends a run.
	Abort struct {
		Run    core.ID
		Reason string
	}
	// Halt halts all calls.
	Halt struct{}
	// Resume lets calls go on that were halted.
	Resume struct{}
	// Replan opens an editor for tasks to add to a DAG, and adds them.
	Replan struct{ Run core.ID }

	// Copy puts text into the clipboard; What names it.
	Copy struct{ What, Text string }
	// View shows text in the person's editor, read only. Name ends in a suffix
	// that tells the editor its kind.
	View struct{ Name, Text string }
	// Save writes text to a file of that name in the current folder, which must
	// not exist.
	Save struct{ Name, Text string }
	// OpenURL opens an address in the browser.
	OpenURL struct{ URL string }
	// Command runs a command line of pml, without the pml; its output comes with
	// Screen.ShowOutput.
	Command struct{ Line string }
	// LoadServers reads the configured servers without starting one; they come with
	// Screen.ShowServers.
	LoadServers struct{}
	// CheckServer starts a server in this process and reads how it stands. Owners are
	// other processes in which it runs and goes on running. Anew ends the process that it
	// has here before.
	CheckServer struct {
		Name, Owners string
		Anew         bool
	}
	// Shell lends the terminal to a command line of pml that asks a person; Full is set
	// for one that is a full screen. File is written with Text before, unless it is there.
	Shell struct {
		Args       []string
		Full       bool
		File, Text string
	}
	// LoadFlows reads the hook flows and what they did; they come with
	// Screen.ShowFlows.
	LoadFlows struct{}
	// FindFlowRuns reads the flow runs of a call; they come with Screen.ShowFlowRun.
	FindFlowRuns struct {
		Run  core.ID
		Call string
	}
	// SwitchFlow enables or disables a flow.
	SwitchFlow struct {
		Flow   state.FlowFile
		Enable bool
	}
	// SaveFlow writes a flow's file, if it is still the one that was read: Was, empty
	// for a file that must not be there. What became of it comes with Screen.FlowSaved.
	SaveFlow struct {
		Flow      state.FlowFile
		Text, Was []byte
	}
	// TryFlowOnAll runs a flow on several calls that are not made; what came of them comes
	// with Screen.ShowTrials.
	TryFlowOnAll struct {
		Flow  state.FlowFile
		Text  []byte
		Calls []state.FlowCall
	}
	// TryFlow runs a flow on a call that is not made; what came of it comes with
	// Screen.ShowTrial.
	TryFlow struct {
		Flow state.FlowFile
		Text []byte
		Call state.FlowCall
	}
	// EditFlowPart has a person edit a part of a flow; what they leave comes with
	// Screen.FlowPartEdited.
	EditFlowPart struct {
		Flow state.FlowFile
		Node string // empty: the whole file
		Part flowedit.Part
	}
	// LoadAudit reads the audit log.
	LoadAudit struct{}
	// LoadRules reads the permission rules; they come with ShowRules.
	LoadRules struct{}
)

func (Quit) intent()         {}
func (Suspend) intent()      {}
func (Redraw) intent()       {}
func (Refresh) intent()      {}
func (Decide) intent()       {}
func (AskRule) intent()      {}
func (Remember) intent()     {}
func (Extend) intent()       {}
func (Renew) intent()        {}
func (Continue) intent()     {}
func (Retry) intent()        {}
func (Abort) intent()        {}
func (Halt) intent()         {}
func (Resume) intent()       {}
func (Replan) intent()       {}
func (Copy) intent()         {}
func (View) intent()         {}
func (Save) intent()         {}
func (OpenURL) intent()      {}
func (Command) intent()      {}
func (LoadAudit) intent()    {}
func (LoadRules) intent()    {}
func (LoadServers) intent()  {}
func (LoadFlows) intent()    {}
func (FindFlowRuns) intent() {}
func (SwitchFlow) intent()   {}
func (TryFlow) intent()      {}
func (TryFlowOnAll) intent() {}
func (SaveFlow) intent()     {}
func (EditFlowPart) intent() {}
func (CheckServer) intent()  {}
func (Shell) intent()        {}

// Level is how a message is meant.
type Level int

// The levels.
const (
	Good Level = iota
	Note
	Bad
)

// flash is the message in the last line but one.
type flash struct {
	level Level
	text  string
	at    time.Time
	count int // of the messages so far
}

// Say shows a message; text is safe to show.
func (s *Screen) Say(level Level, text string, now time.Time) {
	s.flash = flash{level, text, now, s.flash.count + 1}
}

// Silent reports whether no message is shown: a key took it away, or it was there for its time.
func Silent(s *Screen, now time.Time) bool { return s.flash.spans(s.env(now)) == nil }

// ruleTaker is an overlay that asked for a rule.
type ruleTaker interface {
	showRule(rule api.Rule, err error, now time.Time)
}

// ShowRule shows the rule that would remember an approval, for a person to
// agree to, or why there is none. It goes to the overlay that asked for it.
func (s *Screen) ShowRule(rule api.Rule, err error, now time.Time) {
	for _, o := range s.overlay {
		if t, ok := o.(ruleTaker); ok {
			t.showRule(rule, err, now)
		}
	}
}

// NeedPin says that decisions need a PIN: the card asks for it.
func (s *Screen) NeedPin(need bool) { s.needPin = need }
