package tui

import (
	"cmp"
	"context"
	"os/exec"
	"runtime"
	"slices"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/feed"
	"github.com/casys-ai/pml/tui/osc"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/screen"
	"github.com/casys-ai/pml/tui/state"
)

// maxEvents is how many events are kept.
const maxEvents = 100_000

// reader is what the model wants of the feed.
type reader interface {
	Want(ids []core.ID)
	Refresh()
	Touch(id core.ID)
	Listen(id core.ID)
}

// model is what the library drives: it turns its messages into calls of the
// screen, and what the screen wants into commands.
type model struct {
	o      Options
	state  *state.State
	audit  auditLog
	screen *screen.Screen
	feed   reader
	term   osc.Terminal
	send   func(sequence string) // to the terminal, between frames
	dir    string                // files are saved in, empty: the current folder
	// after has a message come later, exec is the library's way to lend the terminal to another
	// program.
	after func(d time.Duration, msg tea.Msg) tea.Cmd
	exec  func(c *exec.Cmd, done tea.ExecCallback) tea.Cmd

	// reading ends with the program; deciding, which must not be cut off, later.
	reading, deciding context.Context
	flights           *flights
	// crashed ends the program after a panic.
	crashed func(crash)

	w, h     int
	focused  bool // known to have the focus
	notes    *notifier
	taken    *takeovers
	others   consequences
	activity activity
	waiting  []core.Approval
	known    moment    // when activity and waiting were looked at
	said     time.Time // when a message came on screen
	touched  int64     // grows with all that may change the screen but the state
	frame    frame
	wanted   []core.ID
	running  []core.ID
	watched  watched
	hosts    lookout
	servers  lookout
	title    string
	working  bool
	ticking  bool
	together *tally // of what is being carried out; nil: of one run at most
	busy     int    // decisions that are under way
	quitting bool   // as soon as none is
	commands commands
	flowing  bool // the flows are being read
	// flowsAgain is set while they are, once more is to be read.
	flowsAgain bool
	flowNews   flowNews  // the change that the status line reports once they are read
	flowsAt    int64     // the version of the state for which they are, or will be, read again
	flowsDue   time.Time // when they are read again; zero: nothing has happened since
}

// moment is a state at a second.
type moment struct {
	version int64
	second  int64
}

// frame is what was drawn last, and of what.
type frame struct {
	moment
	w, h    int
	touched int64
	text    string
}

// The messages beside those of the library.
type (
	changeMsg  struct{ change feed.Change }
	warningMsg string
	// backgroundMsg is what the terminal says of itself.
	backgroundMsg struct{ light bool }
	// doneMsg ends an effect: what it does to the model.
	doneMsg struct {
		deciding bool
		apply    func(m *model, now time.Time) tea.Cmd
	}
)

func newModel(o Options, s *state.State, r reader) *model {
	background := context.Background()
	m := &model{
		o: o, state: s, feed: r, term: osc.Detect(o.Environ), send: func(string) {}, exec: tea.ExecProcess,
		screen: screen.New(screen.Options{
			State: s, Keys: o.Keys, Theme: paint.NewTheme(o.Palette, o.Profile, o.ASCII),
			Version: o.Version, Workspace: o.Workspace, Commands: o.Commands, Confirm: !o.Demo,
		}),
		reading: background, deciding: background, flights: newFlights(), crashed: func(crash) {},
		w: 80, h: 24, notes: newNotifier(o.Notify), taken: newTakeovers(o.Runner), others: consequences{},
		audit: auditLog{read: o.Backend.Audit},
	}
	m.after = func(d time.Duration, msg tea.Msg) tea.Cmd { return after(m.reading, d, msg) }
	return m
}

// Init implements tea.Model.
func (m *model) Init() tea.Cmd {
	if m.o.Palette == paint.Auto && m.o.Profile > paint.NoColor && runtime.GOOS != "windows" {
		m.send(m.term.AskBackground()) // nothing waits for the answer
	}
	return tea.Batch(m.askPin(), m.nextWarning())
}

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (_ tea.Model, cmd tea.Cmd) {
	defer func() {
		if r := recover(); r != nil {
			m.crashed(newCrash(r))
			cmd = tea.Quit
		}
	}()
	now := m.o.Clock.Now()
	cmds := m.handle(msg, now)
	return m, tea.Batch(append(cmds, m.settle(now)...)...)
}

func (m *model) handle(msg tea.Msg, now time.Time) []tea.Cmd {
	switch msg := msg.(type) {
	case changeMsg:
		decided := m.state.Decisions()
		msg.change(m.state)
		m.screen.Changed(now)
		if m.state.Decisions() != decided {
			return m.carryOut(m.screen.AuditGrew(), now)
		}
	case tickMsg:
		m.ticking = false
	case tea.KeyMsg:
		m.touched++
		var cmds []tea.Cmd
		for _, k := range keysOf(msg) {
			if m.stopCommand(k, now) {
				continue
			}
			open := m.screen.Open()
			cmds = append(cmds, m.carryOut(m.screen.Key(k, now), now)...)
			if !open && m.screen.Open() { // a card, perhaps: a PIN may have been set or removed elsewhere
				cmds = append(cmds, m.askPin())
			}
		}
		return cmds
	case tea.MouseMsg:
		if b, ok := buttonOf(msg); ok {
			m.touched++
			return m.carryOut(m.screen.Mouse(msg.X, msg.Y, b, now), now)
		}
	case tea.WindowSizeMsg:
		m.w, m.h = msg.Width, msg.Height
		m.screen.Resize(msg.Width, msg.Height)
	case doneMsg:
		return m.done(msg, now)
	case backgroundMsg:
		if msg.light {
			m.touched++
			m.screen.SetTheme(paint.NewTheme(paint.Light, m.o.Profile, m.o.ASCII))
		}
	case warningMsg:
		m.say(screen.Note, core.Visible(string(msg), 400, false), now)
		return []tea.Cmd{m.nextWarning()}
	case tea.ResumeMsg:
		return []tea.Cmd{m.back()}
	default:
		if on, known := focusOf(msg); known {
			m.focused, m.touched = on, m.touched+1
			m.screen.Focused(on, now)
		}
	}
	return nil
}

// settle brings up to date what follows from the state and the screen: what the
// feed should read, which notices a person gets, when to draw again.
func (m *model) settle(now time.Time) []tea.Cmd {
	if at := m.at(now); at != m.known {
		expired := len(m.waiting) > 0 && m.waiting[0].StateAt(now) != core.ApprovalOpen
		if at.version != m.known.version || m.known.second == 0 || expired {
			m.waiting = m.state.Waiting(now)
			m.activity = activityOf(m.state, m.waiting)
		}
		m.known = at
		m.tell(now)
	}
	if text := m.others.vanished(m.state, now); text != "" {
		m.say(screen.Note, text, now)
	}
	if m.state.Loaded {
		if wants := m.screen.Wants(); !slices.Equal(wants, m.wanted) {
			m.wanted = slices.Clone(wants)
			m.feed.Want(m.wanted)
		}
	}
	if m.state.Loaded {
		m.feed.Listen(m.screen.Listens())
	}
	if running := m.taken.running(m.state); !slices.Equal(running, m.running) {
		m.running = running
		m.touched++
		m.screen.SetRunning(running)
	}
	var cmds []tea.Cmd
	for _, look := range []func(time.Time) tea.Cmd{m.lookForKeys, m.followFlows, m.lookForHosts} {
		if cmd := look(now); cmd != nil {
			cmds = append(cmds, cmd)
		}
	}
	if m.o.Machine != nil && m.servers.due(m.screen.Shows(screen.PanelServers), serversEvery, now) {
		cmds = append(cmds, m.loadServers(now))
	}
	d := m.activity.every(now, m.said)
	if m.screen.Shows(screen.PanelHosts) || m.screen.Shows(screen.PanelServers) {
		d = cmp.Or(d, slowTick)
	}
	if len(m.commands.running) > 0 && !m.screen.Open() { // esc means something else there
		if d = cmp.Or(d, slowTick); screen.Silent(m.screen, now) || now.Sub(m.said) >= flashTime {
			m.say(screen.Note, m.commands.status(), now)
		}
	}
	if d > 0 && !m.ticking {
		m.ticking = true
		cmds = append(cmds, m.after(d, tickMsg{}))
	}
	return cmds
}

// tell notifies, and sets the title and the progress of the window.
func (m *model) tell(now time.Time) {
	if m.state.Loaded {
		m.send(m.notes.step(m.waiting, m.focused, m.term, now))
	}
	if title := titleOf(m.waiting, now); title != m.title {
		m.title = title
		m.send(m.term.Title(title))
	}
	if working := m.activity.moving > 0; working != m.working {
		m.working = working
		m.send(m.term.Working(working))
	}
}

// back is called when another program had the terminal: it may have changed
// what the library does not set again.
func (m *model) back() tea.Cmd {
	m.title = ""
	m.touched++
	m.known = moment{}
	return tea.EnableMouseCellMotion
}

// at is the moment as far as it can be seen on the screen.
func (m *model) at(now time.Time) moment { return moment{m.state.Version(), now.Unix()} }

// View implements tea.Model. The library asks for it after each message; it is
// drawn anew only when it can look different.
func (m *model) View() (text string) {
	defer func() {
		if r := recover(); r != nil {
			m.crashed(newCrash(r))
			text = ""
		}
	}()
	now := m.o.Clock.Now()
	f := frame{moment: m.at(now), w: m.w, h: m.h, touched: m.touched}
	if f.text = m.frame.text; f != m.frame || f.text == "" {
		f.text = m.screen.View(now)
		m.frame = f
	}
	return m.frame.text
}

// say shows a message; the text must be safe to show.
func (m *model) say(level screen.Level, text string, now time.Time) {
	m.said = now
	m.touched++
	m.screen.Say(level, text, now)
}

// askPin finds out whether decisions need a PIN.
func (m *model) askPin() tea.Cmd {
	return m.effect(func(ctx context.Context) func(*model, time.Time) tea.Cmd {
		need, err := m.o.Backend.NeedsPin(ctx)
		return func(m *model, now time.Time) tea.Cmd {
			if err != nil {
				m.say(screen.Bad, problem("cannot tell whether decisions need a PIN", err), now)
				return nil
			}
			m.screen.NeedPin(need)
			return nil
		}
	})
}

// nextWarning waits for what the backend wants a person to know.
func (m *model) nextWarning() tea.Cmd {
	if m.o.Warnings == nil {
		return nil
	}
	return func() tea.Msg {
		select {
		case text, ok := <-m.o.Warnings:
			if ok {
				return warningMsg(text)
			}
		case <-m.reading.Done():
		}
		return nil
	}
}
