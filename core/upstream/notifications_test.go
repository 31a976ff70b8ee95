package upstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/upstream"
)

// party is a client of an owner, which says when it has heard something.
type party struct {
	*host
	came chan struct{}
}

func newParty(id, owner string) *party {
	p := &party{newHost(id, ""), make(chan struct{}, 100)}
	p.Owner = owner
	notify := p.Notify
	p.Notify = func(method string, params json.RawMessage) {
		notify(method, params)
		p.came <- struct{}{}
	}
	return p
}

// calls makes a call of the party's.
func (p *party) calls(ctx context.Context, m *upstream.Manager, l upstream.Launch, tool, args string) error {
	_, err := m.Call(ctx, upstream.Request{Launch: with(l, p.host), Tool: tool, Owner: p.Owner, Args: json.RawMessage(args)})
	return err
}

func wantHeard(t *testing.T, who string, p *party, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, p.heard()); diff != "" {
		t.Errorf("%s heard\n%s", who, diff)
	}
}

// What a server logs while it works for one owner is told to the peers that it
// works for, and to no other, however they share its process; while it works for
// two, nobody knows whom it is about.
func TestLogs_OwnersOfASharedProcess(t *testing.T) {
	t.Parallel()
	p, _ := newPhone(t)
	m := newManager(t, nil)
	l := launch(t, "rich", p.env())
	ann, also, ben := newParty("a", "ann"), newParty("a2", "ann"), newParty("b", "ben")
	say := func(text, do string) string {
		return fmt.Sprintf(`{"say":[{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%q}}],"do":%q}`, text, do)
	}
	log := func(text string) string { return fmt.Sprintf(`notifications/message {"level":"info","data":%q}`, text) }
	for _, party := range []*party{ann, also, ben} {
		if err := party.calls(t.Context(), m, l, "t", `{}`); err != nil {
			t.Fatal(err)
		}
	}
	if err := ann.calls(t.Context(), m, l, "t", say("of ann", "")); err != nil {
		t.Fatal(err)
	}
	<-ann.came
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- ann.calls(ctx, m, l, "t", say("it hangs", "hang")) }()
	<-ann.came // the call is under way
	if err := ben.calls(t.Context(), m, l, "t", say("of ann or ben", "")); err != nil {
		t.Fatal(err)
	}
	cancel()
	wantCode(t, <-over, core.CodeCancelled)
	if err := ben.calls(t.Context(), m, l, "t", say("of ben", "")); err != nil {
		t.Fatal(err)
	}
	wantHeard(t, "ann", ann, log("of ann"), log("it hangs"))
	wantHeard(t, "ann's other client", also)
	wantHeard(t, "ben", ben, log("of ben"))
}

// Over HTTP a log belongs to the call in whose stream it comes, whatever else is
// under way.
func TestLogs_StreamsOfASharedServer(t *testing.T) {
	t.Parallel()
	hangs, first := make(chan struct{}), make(chan struct{}, 1)
	first <- struct{}{}
	a := newAsker(t, func(_ *asker, id json.RawMessage, event func(string)) {
		who := "ben"
		select {
		case <-first:
			who = "ann"
		default:
		}
		event(fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":%q}}\n\n", who))
		if who == "ann" {
			<-hangs
		}
		event(fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[]}}\n\n", id))
	})
	m := newManager(t, nil)
	l := upstream.Launch{Name: "logs", Workspace: "/w", URL: a.url}
	ann, ben := newParty("a", "ann"), newParty("b", "ben")
	over := make(chan error, 1)
	go func() { over <- ann.calls(t.Context(), m, l, "t", `{}`) }()
	<-ann.came
	err := ben.calls(t.Context(), m, l, "t", `{}`)
	close(hangs)
	if err := errors.Join(err, <-over); err != nil {
		t.Fatal(err)
	}
	wantHeard(t, "ann", ann, `notifications/message {"data":"ann"}`)
	wantHeard(t, "ben", ben, `notifications/message {"data":"ben"}`)
}

// The level of the logs is told to the process that follows one that died.
func TestForward_LevelLasts(t *testing.T) {
	t.Parallel()
	p, _ := newPhone(t)
	m := newManager(t, nil)
	l := with(launch(t, "rich", p.env()), newHost("a", ""))
	if _, err := forward(t, m, l, "logging/setLevel", `{"level":"debug"}`); err != nil {
		t.Fatal(err)
	}
	r := pick(t, p)
	line(t, r)
	_, err := forward(t, m, l, "resources/read", `{"uri":"die"}`)
	wantCode(t, err, core.CodeServerUnreachable)
	line(t, r)
	gone(t, r)
	if _, err := m.Tools(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	if got := line(t, pick(t, p)); got != "logging/setLevel" {
		t.Errorf("the next process heard %q", got)
	}
}
