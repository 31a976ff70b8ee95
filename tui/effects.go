package tui

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/tui/decide"
	"github.com/casys-ai/pml/tui/screen"
)

// maxAudit is how many rows of the audit log are shown; auditPage is how many
// are read at a time.
const (
	maxAudit  = 2000
	auditPage = 1000
)

// carryOut turns what the screen wants into commands for the library.
func (m *model) carryOut(intents []screen.Intent, now time.Time) []tea.Cmd {
	var cmds []tea.Cmd
	m.together = tallyOf(intents)
	for _, i := range intents {
		if cmd := m.carry(i, now); cmd != nil {
			cmds = append(cmds, cmd)
		}
	}
	return cmds
}

func (m *model) carry(i screen.Intent, now time.Time) tea.Cmd {
	switch i := i.(type) {
	case screen.Quit:
		return m.quit(now)
	case screen.Suspend:
		return tea.Suspend
	case screen.Redraw:
		m.touched++
		return tea.ClearScreen
	case screen.Refresh:
		m.feed.Refresh()
		m.say(screen.Note, "reading everything again", now)
	case screen.Decide:
		return m.decide(i)
	case screen.AskRule:
		return m.askRule(i)
	case screen.Remember:
		return m.remember(i)
	case screen.Extend:
		return m.extend(i)
	case screen.Renew:
		return m.renew(i)
	case screen.Continue:
		return m.move(i.Run, "continued", func(ctx context.Context) (api.Result, error) {
			// A pause after a layer that has come meanwhile is not on the screen, and not passed.
			return m.o.Backend.Continue(ctx, api.ContinueRequest{ID: i.Run, By: m.actor(), Follow: true})
		})
	case screen.Retry:
		return m.move(i.Run, failedAgain, func(ctx context.Context) (api.Result, error) {
			return m.o.Backend.Retry(ctx, i.Run, m.actor(), 0)
		})
	case screen.Abort:
		return m.move(i.Run, "aborted", func(ctx context.Context) (api.Result, error) {
			return m.o.Backend.Abort(ctx, i.Run, m.actor(), i.Reason)
		})
	case screen.Halt, screen.Resume:
		return m.halt(i)
	case screen.Replan:
		return m.replan(i.Run)
	default:
		return m.carryAround(i, now)
	}
	return nil
}

// carryAround carries out what is not about runs and approvals themselves.
func (m *model) carryAround(i screen.Intent, now time.Time) tea.Cmd {
	switch i := i.(type) {
	case screen.Copy:
		return m.copy(i, now)
	case screen.EditArguments:
		return m.editArguments(i, now)
	case screen.EditBounds:
		return editBounds(m, i, now)
	case screen.View:
		return m.view(i, now)
	case screen.Save:
		return m.save(i)
	case screen.OpenURL:
		return m.openURL(i, now)
	case screen.Command:
		return m.command(i, now)
	case screen.LoadAudit:
		return m.loadAudit()
	case screen.LoadServers:
		return m.loadServers(now)
	case screen.LoadFlows:
		return m.loadFlows()
	case screen.LoadRules:
		return loadRules(m)
	case screen.FindFlowRuns:
		return m.findFlowRuns(i)
	case screen.TryFlow:
		return m.tryFlow(i)
	case screen.TryFlowOnAll:
		return m.tryFlowOnAll(i)
	case screen.SaveFlow:
		return m.saveFlow(i)
	case screen.EditFlowPart:
		return m.editFlowPart(i, now)
	case screen.SwitchFlow:
		return m.switchFlow(i)
	case screen.CheckServer:
		return m.checkServer(i, now)
	case screen.Shell:
		return m.shell(i, now)
	}
	return nil
}

// actor is who acts here.
func (m *model) actor() core.Actor { return core.Actor{Who: m.o.User, Via: core.ViaTUI} }

// quit ends the program, once what was decided is told. Whoever wants it a
// second time does not wait.
func (m *model) quit(now time.Time) tea.Cmd {
	if n := len(m.commands.running); n > 0 && !m.commands.leaving {
		m.commands.leaving = true
		m.say(screen.Bad, m.commands.running[n-1].line+" still runs here and would be stopped; once more leaves at once", now)
		return nil
	}
	if m.busy == 0 || m.quitting {
		return tea.Quit
	}
	m.quitting = true
	m.say(screen.Note, "a decision is under way; once more leaves at once", now)
	return nil
}

// then is what an effect does to the model when it is done.
type then = func(m *model, now time.Time) tea.Cmd

// effect runs something behind the program, until that ends.
func (m *model) effect(run func(ctx context.Context) then) tea.Cmd {
	return m.launch(m.reading, false, run)
}

// act runs something that decides: the end of the program waits for it.
func (m *model) act(run func(ctx context.Context) then) tea.Cmd {
	m.busy++
	return m.launch(m.deciding, true, run)
}

func (m *model) launch(ctx context.Context, deciding bool, run func(ctx context.Context) then) tea.Cmd {
	return func() (msg tea.Msg) {
		if !m.flights.begin() {
			return doneMsg{deciding: deciding}
		}
		defer m.flights.end()
		defer func() {
			if r := recover(); r != nil {
				m.crashed(newCrash(r))
				msg = tea.QuitMsg{}
			}
		}()
		return doneMsg{deciding: deciding, apply: run(ctx)}
	}
}

func (m *model) done(msg doneMsg, now time.Time) []tea.Cmd {
	m.touched++
	var cmds []tea.Cmd
	if msg.apply != nil {
		cmds = append(cmds, msg.apply(m, now))
	}
	if msg.deciding {
		cmds = append(cmds, m.carryOut(m.screen.AuditGrew(), now)...)
		m.busy--
		if m.busy == 0 && m.quitting {
			cmds = append(cmds, tea.Quit)
		}
	}
	return cmds
}

// move moves a run and says what became of it.
func (m *model) move(id core.ID, word string, call func(ctx context.Context) (api.Result, error)) tea.Cmd {
	epoch, with := m.epoch(id), m.together
	return m.act(func(ctx context.Context) then {
		r, err := call(ctx)
		return func(m *model, now time.Time) tea.Cmd {
			m.feed.Touch(id)
			if err != nil {
				with.say(m, screen.Bad, "", problem(id.Short(), err), now)
				return nil
			}
			m.taken.saw(r, epoch)
			with.say(m, screen.Good, word, id.Short()+": "+word+standing(r), now)
			return nil
		}
	})
}

// tally is what has become of what was done with several runs at once.
type tally struct {
	all, done int
	words     []string // what was done, each once
	good      map[string]int
	bad       string // the first that went wrong
}

// tallyOf is one for intents that move several runs, nil for any others.
func tallyOf(intents []screen.Intent) *tally {
	n := 0
	for _, i := range intents {
		switch i.(type) {
		case screen.Abort, screen.Continue, screen.Retry, screen.Renew:
			n++
		default:
		}
	}
	if n < 2 {
		return nil
	}
	return &tally{all: n, good: map[string]int{}}
}

// say says what became of one of several as soon as that is known of all of them; of one alone,
// with no tally, it says the text.
func (t *tally) say(m *model, level screen.Level, word, text string, now time.Time) {
	if t == nil {
		m.say(level, text, now)
		return
	}
	t.done++
	if word == failedAgain {
		word = "tried again"
	}
	if level == screen.Bad {
		t.bad = cmp.Or(t.bad, text)
	} else if t.good[word]++; t.good[word] == 1 {
		t.words = append(t.words, word)
	}
	if t.done < t.all {
		return
	}
	said := make([]string, len(t.words))
	for i, w := range t.words {
		said[i] = fmt.Sprintf("%d %s", t.good[w], w)
	}
	if text := cmp.Or(strings.Join(said, ", "), "none"); t.bad == "" {
		m.say(screen.Good, text, now)
	} else {
		m.say(screen.Bad, fmt.Sprintf("%s of %d. %s", text, t.all, t.bad), now)
	}
}

// failedAgain says what a retry does to one run.
const failedAgain = "its failed tasks are tried again"

// epoch is that of a run as far as it is known, so that it shows who takes it
// over.
func (m *model) epoch(id core.ID) int64 {
	r, _ := m.state.Run(id)
	return r.Epoch
}

// standing says how a run stands after a call, where that is worth a word.
func standing(r api.Result) string {
	switch r.Status {
	case api.StatusApprovalRequired, api.StatusLayerComplete, api.StatusAwaitingHuman:
		return "; it waits for a decision"
	case api.StatusHalted:
		return "; it waits, as all calls are halted"
	case api.StatusComplete, api.StatusSuccess:
		return "; it is complete"
	case api.StatusError:
		return "; it failed: " + core.Visible(r.Error, 160, false)
	case api.StatusRunning, api.StatusReplanned, api.StatusAborted, api.StatusSuggestions, api.StatusExecuteLocally:
	}
	return ""
}

// problem is an error in one line that is safe to show, with what helps.
func problem(what string, err error) string {
	e := core.AsError(err)
	text := what + ": " + core.Visible(e.Error(), 400, false)
	if len(e.Next) > 0 {
		text += ". Try " + core.Visible(decide.Shell(e.Next), 120, false)
	}
	return text
}

func (m *model) extend(i screen.Extend) tea.Cmd {
	return m.act(func(ctx context.Context) then {
		a, err := m.o.Backend.Extend(ctx, i.ID, i.By)
		return m.asked(nil, a, err, "more time for "+i.ID.Short(), func(a core.Approval, now time.Time) string {
			if a.ExpiresAt == nil {
				return whatOf(a) + " has no limit"
			}
			return whatOf(a) + " expires in " + leftOf(a, now)
		})
	})
}

func (m *model) renew(i screen.Renew) tea.Cmd {
	with := m.together
	return m.act(func(ctx context.Context) then {
		a, err := m.o.Backend.Renew(ctx, i.ID, m.actor())
		return m.asked(with, a, err, "ask again for "+i.ID.Short(), func(a core.Approval, _ time.Time) string {
			return "asked again: " + whatOf(a)
		})
	})
}

// asked puts an approval as it is now into the state, or says why it is not.
func (m *model) asked(with *tally, a core.Approval, err error, what string, text func(core.Approval, time.Time) string) then {
	return func(m *model, now time.Time) tea.Cmd {
		if err != nil {
			with.say(m, screen.Bad, "", problem(what, err), now)
			return nil
		}
		m.state.PutApprovals(a)
		m.feed.Touch(a.RunID)
		with.say(m, screen.Good, "asked again", text(a, now), now)
		return nil
	}
}

// openURL opens an address of the web. Any other address could start a program.
func (m *model) openURL(i screen.OpenURL, now time.Time) tea.Cmd {
	u, err := url.Parse(i.URL)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "":
		m.say(screen.Bad, "only an address of the web can be opened, not "+core.Visible(i.URL, 80, false), now)
		return nil
	case m.o.OpenURL == nil:
		m.say(screen.Bad, "there is no browser here; copy the address and open it elsewhere", now)
		return nil
	}
	return m.effect(func(ctx context.Context) then {
		err := m.o.OpenURL(ctx, i.URL)
		return func(m *model, now time.Time) tea.Cmd {
			if err != nil {
				m.say(screen.Bad, problem("cannot open the browser", err), now)
			} else {
				m.say(screen.Good, "opened in the browser: "+core.Visible(u.Host, 80, false), now)
			}
			return nil
		}
	})
}

// copy sends a text to the clipboard. Nothing says whether the terminal took it.
func (m *model) copy(i screen.Copy, now time.Time) tea.Cmd {
	sequence, ok := m.term.Clipboard(i.Text)
	if !ok {
		m.say(screen.Bad, "cannot copy "+i.What+": it is too long for the terminal, or the terminal has no clipboard", now)
		return nil
	}
	m.send(sequence)
	m.say(screen.Good, "copied "+i.What, now)
	return nil
}

// auditLog reads the audit logs of both halves, page by page.
type auditLog struct {
	read  func(ctx context.Context, q api.AuditQuery) ([]core.AuditRow, error)
	since api.Since // how far they have been read
}

// loadAudit reads the rows of the audit logs that are new, and keeps the newest.
func (m *model) loadAudit() tea.Cmd {
	log := m.audit
	rows := m.state.Audit()
	rows = slices.Clip(rows) // the state's own stay as they are
	return m.effect(func(ctx context.Context) then {
		rows, err := log.newest(ctx, rows)
		return func(m *model, now time.Time) tea.Cmd {
			if err != nil {
				m.say(screen.Bad, problem("cannot read the audit log", err), now)
			}
			m.audit = log
			m.state.SetAudit(rows)
			return nil
		}
	})
}

// newest adds the rows that come after those that were read before.
func (l *auditLog) newest(ctx context.Context, rows []core.AuditRow) ([]core.AuditRow, error) {
	for {
		page, err := l.read(ctx, api.AuditQuery{Since: l.since, Args: true, Limit: auditPage})
		if err != nil || len(page) == 0 {
			return rows, err
		}
		before := l.since
		for _, r := range page {
			l.since = l.since.Past(r.Side, r.Seq)
		}
		rows = append(rows, page...)
		slices.SortStableFunc(rows, screen.ByAuditTime) // one half may have been away
		rows = rows[max(0, len(rows)-maxAudit):]
		if len(page) < auditPage || l.since == before {
			return rows, nil
		}
	}
}
