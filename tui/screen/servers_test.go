package screen

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

func fixtureServers() []api.ServerInfo {
	return []api.ServerInfo{
		{Name: "slack", State: api.ServerReady, Command: []string{"npx", "slack-mcp"}, Tools: 12},
		{
			Name: "ocr", State: api.ServerFailed, Command: []string{"uvx", "ocr"}, Error: "exit status 1",
			Health: &api.ServerHealth{State: "failing", Failures: 3, LastError: "exit status 1", Stderr: "Traceback\nModuleNotFoundError: torch\x1b[2J\n"},
		},
		{Name: "linear", State: api.ServerNeeds, URL: "https://linear.example", Needs: []api.ServerNeed{{Type: core.ApproveOAuth, Description: "sign in"}}},
	}
}

func TestServers(t *testing.T) {
	t.Parallel()
	st := fixtureState()
	st.AddEvents(
		core.Event{Seq: 20001, Type: core.EventTaskComplete, At: fixtureNow, RunID: runNotes, Tool: "slack:post", DurationMS: 100},
		core.Event{Seq: 20002, Type: core.EventTaskError, At: fixtureNow, RunID: runNotes, Tool: "slack:post", DurationMS: 300},
		core.Event{Seq: 20003, Type: core.EventTaskError, At: fixtureNow, RunID: runNotes, Tool: "slack:post", Error: core.Errorf(core.CodeDenied, "no")},
	)
	for _, size := range [][2]int{{60, 15}, {80, 24}, {100, 30}, {160, 45}} {
		s := newScreen(t, st, size[0], size[1])
		wantIntents(t, press(s, "7"), LoadServers{})
		wantShown(t, s, "Reading the servers.")
		s.ShowServers(fixtureServers(), true, nil)
		checkFrame(t, s.Plain(fixtureNow), size[0], size[1])
		wantShown(t, s, "broken", "needs you", "ready", "sign in")
		if press(s, "g", "j"); size[0] >= 80 { // what 80 columns say of it, more columns say as well
			wantShown(t, s, "3 times in a row", "ModuleNotFoundError")
			press(s, "8")
			wantShown(t, s, "folder    /home/ada/src/shop", "waits for ")
		}
	}
	s := newScreen(t, st, 80, 24)
	press(s, "7")
	s.ShowServers(fixtureServers(), true, nil)
	wantShown(t, s, "2 1✗", "200 ms")                          // calls of slack, one failed
	wantShown(t, s, " 3   CALLS counts the newest 13 events ") // what was before is not counted
	wantIntents(t, press(s, "g", "C"), Shell{Args: []string{"servers", "connect", "linear"}})
	wantShown(t, s, "C sign in")
	wantIntents(t, press(s, "j", "R"), CheckServer{Name: "ocr"})
	wantHidden(t, s, "C sign in") // it is at no URL
	wantShown(t, s, `ModuleNotFoundError: torch\x1b[2J`, "3 times in a row")
	wantIntents(t, press(s, "C"))
	wantShown(t, s, "ocr is no server at a URL")
	press(s, "L")
	wantShown(t, s, "stderr, its last lines")
	press(s, "esc")
	wantIntents(t, press(s, "j", "I"), Shell{Args: []string{"servers", "install", "slack"}})
	shared := fixtureServers()[0]
	shared.Elsewhere = []api.ServerProcess{{Server: "slack", PID: 99, Owner: 4242, Client: core.Client{Name: "claude-code"}}, {Server: "slack", PID: 98, Owner: 4243}}
	s.ShowServers([]api.ServerInfo{shared}, false, nil)
	wantShown(t, s, "elsewhere", "pid 99 of pml 4242 (claude-code)", "kill 99 when idle, its owner starts it again ")
	wantIntents(t, press(s, "R"), CheckServer{Name: "slack", Owners: "pml 4242 (claude-code), pml 4243"})
	running := fixtureServers()[0]
	running.Health = &api.ServerHealth{State: "running", PID: 77}
	s.ShowServers([]api.ServerInfo{running}, false, nil)
	wantIntents(t, press(s, "R"))
	wantShown(t, s, "Restart slack?", "77, is ended and started anew")
	wantIntents(t, press(s, "n"))
	wantIntents(t, press(s, "R", "y"), CheckServer{Name: "slack", Anew: true})
	fresh := fixtureServers()[1]
	fresh.State, fresh.Error, fresh.Health = api.ServerReady, "", nil
	s.ShowServers([]api.ServerInfo{fresh}, false, nil)
	if frame := s.Plain(fixtureNow); strings.Contains(frame, "broken") || !strings.Contains(frame, "linear") {
		t.Errorf("one server that was checked:\n%s", frame)
	}
	s.ShowServers(nil, true, errors.New("no \x1b config"))
	wantShown(t, s, `cannot read the servers: no \x1b config`)
}

// TestServers_Log: what a server wrote before it ended is laid out, and its window says
// nothing of an exit code of pml's.
func TestServers_Log(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 80, 24)
	press(s, "7")
	s.ShowServers([]api.ServerInfo{{Name: "db", State: api.ServerFailed, Error: "it exited with 3; it said:\nboom: no database\nbye"}}, true, nil)
	wantShown(t, s, "error     it exited with 3; it said: boom: no database bye")
	press(s, "L")
	wantShown(t, s, "━ servers: db ━", "┃ error     it exited with 3; it said:", "┃           boom: no database", "what it wrote stands with the error")
	if frame := s.Plain(fixtureNow); strings.Contains(frame, "exit code") || strings.Contains(frame, `\n`) || strings.Contains(frame, "nothing is known") {
		t.Errorf("untrue:\n%s", frame)
	}
}

// TestServers_NotTrusted: the key that the panel names for a server of a workspace that
// nobody has trusted looks at its files.
func TestServers_NotTrusted(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 80, 24)
	press(s, "7")
	s.ShowServers([]api.ServerInfo{{Name: "db", State: api.ServerNotTrusted}}, true, nil)
	wantShown(t, s, "T: pml trust", "T trust  ")
	wantIntents(t, press(s, "T"), Shell{Args: []string{"trust"}})
}

func TestHosts(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 100, 30)
	press(s, "8")
	wantShown(t, s, "claude-code (ada)", "shop, server", "2, 2 active", "integrity std:fetch")
	connected := []api.ConnectedHost{
		{Client: core.Client{Name: "codex", Version: "0.9"}, Who: "ada", Workspace: "/src/blog", Transport: "stdio", PID: 77, Since: fixtureNow.Add(-time.Minute)},
		{Client: core.Client{Name: "codex", Version: "0.9"}, Who: "ada", Workspace: "/src/blog", Transport: "stdio", PID: 78, Since: fixtureNow},
	}
	s.ShowHosts(connected, nil)
	wantShown(t, s, "2 connected, 3 agents", "codex 0.9 (ada)", "stdio 77 +1", "1m")
	press(s, "g", "enter")
	wantShown(t, s, "codex 0.9 has begun no run yet")
	s.ShowHosts(nil, errors.New("no \x1b folder"))
	wantShown(t, s, `cannot tell who is connected: no \x1b folder`, "0 connected, 2 agents")
	press(s, "g", "enter")
	if s.panes.focus != PanelWorkflows {
		t.Errorf("focus is on %d", s.panes.focus)
	}
	wantShown(t, s, "claude-code", "crawl-competitor")
}

// TestFirst: with nothing there yet the list of runs says what pml is and offers to
// begin; that is gone with the first run.
func TestFirst(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]int{{60, 15}, {80, 24}, {100, 30}, {160, 45}} {
		s := newScreen(t, emptyState(), size[0], size[1])
		checkFrame(t, s.Plain(fixtureNow), size[0], size[1])
		wantShown(t, s, "Nothing has run yet.", "> pml init", "pml tui --demo", "pml execute first.ts")
		wantIntents(t, press(s, "enter"), Shell{Args: []string{"init"}})
		wantShown(t, s, "> pml tui --demo") // what comes next
		wantIntents(t, press(s, "j", "j", "enter"), Shell{Args: []string{"execute", "first.ts"}, File: firstFile, Text: firstScript})
		s.o.State.PutRuns(fixtureRuns()...)
		wantShown(t, s, "triage-")
		wantIntents(t, press(s, "enter"))
	}
}

// TestFirst_NotTrusted: where the files of the workspace are there and nobody has trusted
// them, the page says so, and offers that.
func TestFirst_NotTrusted(t *testing.T) {
	t.Parallel()
	st := emptyState()
	st.SetNotices([]string{"what this workspace's files grant counts only once trusted: pml trust"})
	s := newScreen(t, st, 80, 24)
	wantShown(t, s, "> pml trust", "nobody has trusted them yet", "! what this workspace's files grant counts only once trusted: pml trust")
	if frame := s.Plain(fixtureNow); strings.Contains(frame, "pml init") {
		t.Errorf("it offers what was done:\n%s", frame)
	}
	wantIntents(t, press(s, "enter"), Shell{Args: []string{"trust"}})
}

// TestServers_LongError: what is wrong with a server takes the lines that are left, and is not
// cut off above empty ones.
func TestServers_LongError(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 80, 24)
	press(s, "7")
	s.ShowServers([]api.ServerInfo{{
		Name: "mem", State: api.ServerFailed, Command: []string{"npx", "mem"},
		Error: "the process ended before it had answered: it wants a folder of its own that can be written, see the manual of the server at its very end",
	}}, true, nil)
	wantShown(t, s, "error     the process ended", "the server at its very ", "         end  ")
}

// TestServers_Served: a server that pml's own background server runs is running, needs
// nothing, is restarted there, and has its last words.
func TestServers_Served(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 160, 45)
	press(s, "7")
	served := fixtureServers()[0]
	served.Elsewhere = []api.ServerProcess{{Server: "slack", PID: 6650, Owner: 28752, Serves: true, Log: "/home/ada/.pml/logs/serve.log"}}
	s.ShowServers([]api.ServerInfo{served}, true, nil)
	wantShown(t, s, "running", "pid 6650, runs in pml's background server (pml 28752)")
	for _, word := range []string{"elsewhere", "starts one here", "nothing is known"} {
		wantHidden(t, s, word)
	}
	wantIntents(t, press(s, "R"))
	wantShown(t, s, "Its process 6650 in pml's background")
	wantIntents(t, press(s, "y"), CheckServer{Name: "slack", Anew: true})
	press(s, "L")
	wantShown(t, s, "which has nothing of it yet")
	wantHidden(t, s, "nothing is known of it")
	press(s, "esc")
	served.Served = &api.ServerHealth{State: "ready", PID: 6650, Stderr: "listening\nslow query\n"}
	s.ShowServers([]api.ServerInfo{served}, true, nil)
	press(s, "L")
	wantShown(t, s, "slow query")
}

// TestServers_Silent: a server that was started and wrote nothing is not said to have to be started first.
func TestServers_Silent(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 160, 45)
	press(s, "7")
	server := fixtureServers()[0]
	server.Health = &api.ServerHealth{State: "running", PID: 41}
	s.ShowServers([]api.ServerInfo{server}, true, nil)
	press(s, "enter")
	wantShown(t, s, "it has written nothing")
	wantHidden(t, s, "nothing is known of it")
}

// TestServers_Untried: a server that nobody has started is not called ready, one inside
// the binary is.
func TestServers_Untried(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 80, 24)
	press(s, "7")
	s.ShowServers([]api.ServerInfo{{Name: "web", State: api.ServerReady, Kind: "http", URL: "http://127.0.0.1:9"}}, true, nil)
	wantShown(t, s, "not tried", "nobody has called it yet: R tries it")
	wantHidden(t, s, "ready ")
	s.ShowServers([]api.ServerInfo{{Name: "std", State: api.ServerReady, Kind: "builtin"}}, true, nil)
	wantShown(t, s, "ready")
	wantHidden(t, s, "not tried")
}

// wantHidden fails where a frame has one of the texts.
func wantHidden(t *testing.T, s *Screen, texts ...string) {
	t.Helper()
	frame := s.Plain(fixtureNow)
	for _, text := range texts {
		if strings.Contains(frame, text) {
			t.Errorf("%q is shown:\n%s", text, frame)
		}
	}
}
