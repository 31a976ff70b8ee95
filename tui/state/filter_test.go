package state_test

import (
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/state"
)

var now = time.Date(2026, 3, 4, 14, 2, 31, 0, time.UTC)

func sampleRun() core.Run {
	return core.Run{
		ID: "7f3a91c2-0000-4000-8000-000000000001", Side: core.SideServer, Workspace: "/home/me/src/shop", Kind: core.KindDAG,
		State: core.RunWaiting, Intent: "Release notes", RequestedBy: core.Actor{Who: "root", Via: core.ViaCLI}, CreatedAt: now.Add(-30 * time.Minute),
	}
}

// TestFilter_Run: each word looks at what it names, and all must match.
func TestFilter_Run(t *testing.T) {
	t.Parallel()
	s := state.New(10)
	run := sampleRun()
	s.PutRuns(run)
	s.AddEvents(core.Event{Seq: 1, Side: core.SideServer, RunID: run.ID, Type: core.EventTaskStart, Tool: "github:create_Release"})
	for text, want := range map[string]bool{
		"": true, "   ": true,
		"status:waiting": true, "status:wai": true, "status:running,waiting": true, "status:failed": false, "status:!failed": true,
		"!status:waiting": false, "status:!waiting": false, "!status:!waiting": true, "status:!failed,!waiting": false, "status~wait": true,
		"name~release": true, "name:release": false, "name:release*": true, `name:"release notes"`: true, `name~"se no"`: true,
		"name~x": false, "!name~x": true,
		"id:7f3a": true, "id:7F3A91": true, "id:91c2": false, "id~91c2": true,
		"side:server": true, "side:client": false, "kind:dag": true, "kind:code": false,
		"workspace:shop": true, "workspace:sho": false, "workspace~src": true, "workspace:/home/me/src/shop": true, "workspace:src": false,
		"workspace:*/src/*": true,
		"age<1h":            true, "age<30m": false, "age>29m": true, "age>1d": false, "!age>1d": true, "age<2w": true, "age<1H": true,
		"tool:github:*": true, "tool:github:create_release": true, "tool:*release": true, "tool:gitlab:*": false, "tool~CREATE": true,
		"release": true, "NOTES": true, "7f3a91": true, "github": true, "nothing": false, "!nothing": true, `"release notes"`: true, `"github:create"`: true,
		"release status:waiting age<1h": true, "release status:failed": false,
		// What a person types who knows of no key: a state, a folder, a name.
		"wait": true, "waiting": true, "failed": false, "src/shop": true, "root": true, "root failed": false,
		// Not complete yet: as if it were not there.
		"status:": true, "status:!": true, "status:failed,": false, "status:,": true, "age<": true, "age<1": true, "age>": true, "!": true,
		`"`: true, `""`: true, `name:"rel`: false, `name~"rel`: true, "name~": true, "tool:": true, "id:": true, "*": false,
	} {
		f, err := state.ParseFilter(text, state.RunKeys...)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := s.Match(f.At(now), run.ID); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
		if strings.Contains(text, "tool") || strings.Contains(text, "github") {
			continue // the header alone has no tools
		}
		if got := f.At(now).Run(run); got != want {
			t.Errorf("%q on the header alone: %v, want %v", text, got, want)
		}
	}
	f, err := state.ParseFilter("age<1s")
	if err != nil || !f.Run(run) || !f.ByAge() {
		t.Error("an age counts without a time", err)
	}
	if (state.Filter{}).ByAge() || !(state.Filter{}).Empty() || !(state.Filter{}).Run(run) {
		t.Error("no filter is not empty")
	}
}

// TestFilter_Event is as TestFilter_Run, of events.
func TestFilter_Event(t *testing.T) {
	t.Parallel()
	s := state.New(10)
	run := sampleRun()
	s.PutRuns(run)
	e := core.Event{
		Seq: 1, Side: core.SideServer, RunID: run.ID, Type: core.EventTaskError, Tool: "github:create_release", TaskID: "Publish",
		ApprovalID: "aa00", At: now.Add(-time.Minute), Message: "exit 1", Error: core.Errorf(core.CodeToolFailed, "No such host"),
	}
	for text, want := range map[string]bool{
		"": true, "type:task_error": true, "type:task_": true, "type:!task_log": true, "type:!task_": false, "!type:task_error": false,
		"type:workflow_start,task_error": true, "type~error": true, "tool:github:*": true, "tool:!github:*": false, "task:publish": true, "task~pub": true,
		"run:7f3a": true, "run:release*": true, "run~notes": true, "run:other": false, "!run:7f3a": false, "workflow:7f3a": true,
		"id:aa00": true, "id:7f3a": true, "id:bb": false, "side:server": true, "side:client": false, "age<2m": true, "age>2m": false,
		"exit": true, "NO such": true, "release": true, "nothing": false, "type:": true, `"no such host"`: true,
	} {
		f, err := state.ParseFilter(text, state.EventKeys...)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := s.MatchEvent(f.At(now), e); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
		if strings.HasPrefix(text, "run") && !strings.Contains(text, "7f3a") {
			continue // the event alone has no name
		}
		if got := f.At(now).Event(e); got != want && !strings.Contains(text, "release") {
			t.Errorf("%q on the event alone: %v, want %v", text, got, want)
		}
	}
	f, err := state.ParseFilter("status:waiting")
	if err != nil || f.Event(e) {
		t.Error("an event has a status", err)
	}
}

// TestParseFilter_Wrong: errors name the word, and what could stand there.
func TestParseFilter_Wrong(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"release statsu:waiting": `statsu:waiting: there is nothing called "statsu" (did you mean status?); possible: status, name`,
		"status:gone":            `status:gone: there is no status "gone"; possible: running, waiting, interrupted`,
		"side:sever":             `side:sever: there is no side "sever" (did you mean server?); possible: client, server`,
		"status:waiting,x":       `there is no status "x"`,
		"type:task_error":        `there is nothing called "type"`,
		"age:1h":                 "age:1h: an age is compared with < or >",
		"age<1y":                 "a length of time is a whole number and s, m, h, d or w",
		"age<-1h":                "a length of time is",
		"age<99999999999999w":    "a length of time is",
		"name<x":                 "name<x: only an age is compared with < or >; possible: name:, name~",
		":":                      `there is nothing called ""`,
		"github:create":          `there is nothing called "github"`,
		"sta\u202etus:x\x1b[2J":  `sta\u{202e}tus:x\x1b[2J`,
	} {
		f, err := state.ParseFilter(text, state.RunKeys...)
		if core.CodeOf(err) != core.CodeInvalidArguments || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
		if !f.Empty() {
			t.Errorf("%q: there is a filter", text)
		}
	}
}

// FuzzParseFilter: nothing that is typed breaks a filter, what it says is safe
// to show, and what was read once is read the same again.
func FuzzParseFilter(f *testing.F) {
	for _, text := range []string{
		`status:waiting,running name~release id:7f3a side:server kind:dag workspace:shop age<1h tool:github:*`,
		`type:!task_log "a b" !x`, "\x1b[2J:\x00", `name:"a"b"c`, "age<1", "tool:**a*", "\xff:\xfe", `!"a:b"`,
	} {
		f.Add(text)
	}
	run, e := sampleRun(), core.Event{RunID: sampleRun().ID, Type: core.EventTaskLog, Message: "x", At: now}
	f.Fuzz(func(t *testing.T, text string) {
		filter, err := state.ParseFilter(text)
		if err != nil {
			if msg := err.Error(); msg != core.Visible(msg, 0, false) {
				t.Errorf("%q: not safe to show", msg)
			}
			return
		}
		again, err := state.ParseFilter(filter.String())
		if err != nil {
			t.Fatal(err)
		}
		a, b := filter.At(now), again.At(now)
		if a.Run(run) != b.Run(run) || a.Event(e) != b.Event(e) {
			t.Errorf("%q and %q differ", text, filter)
		}
	})
}
