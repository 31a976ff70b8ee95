package mcp

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/jsonrpc"
)

// levels are those of the log, in their order.
var levels = map[string]int{
	"debug": 1, "info": 2, "notice": 3, "warning": 4, "error": 5, "critical": 6, "alert": 7, "emergency": 8,
}

// logger is the name of pml in log messages.
const logger = "pml"

// accompany tells the client about a run while a call waits for it: progress,
// and what the run logs, as far as the client wants either. started gives the
// run once there is one. The returned function ends it; all that was logged
// until then has been sent when it returns.
func (e *Edge) accompany(ctx context.Context, c *call, started <-chan core.ID) (stop func()) {
	if c.level == 0 || !c.out.open() {
		return e.follow(ctx, c, started)
	}
	moves, logs := make(chan core.ID, 1), make(chan core.ID, 1)
	ctx, cancel := context.WithCancel(ctx)
	handed := make(chan struct{})
	go func() {
		defer close(handed)
		select {
		case id := <-started:
			moves <- id
			logs <- id
		case <-ctx.Done():
		}
	}()
	ended := e.follow(ctx, c, moves)
	l := &logbook{call: c, since: e.o.Clock.Now(), done: make(chan struct{})}
	e.beside("what a run logs was told", func() { l.run(ctx, logs) })
	return func() {
		ended()
		cancel()
		<-handed
		<-l.done
		select { // a run that was over before anybody looked
		case id := <-started:
			l.id = id
		case id := <-logs:
			l.id = id
		default:
		}
		l.rest(context.WithoutCancel(ctx))
	}
}

// logbook passes on what one run logs.
type logbook struct {
	call  *call
	since time.Time // of a run that the session knows nothing of, what was before is not told
	done  chan struct{}

	mu   sync.Mutex
	id   core.ID
	last int64
}

func (l *logbook) run(ctx context.Context, runs <-chan core.ID) {
	defer close(l.done)
	select {
	case id := <-runs:
		l.mu.Lock()
		l.id = id
		l.mu.Unlock()
		_ = l.call.backend.Events(ctx, id, api.Since{}, true, l.pass)
	case <-ctx.Done():
	}
}

// restTime bounds how long the end of a log is looked for.
const restTime = 5 * time.Second

// rest passes on what has come since the last look.
func (l *logbook) rest(ctx context.Context) {
	l.mu.Lock()
	id, last := l.id, l.last
	l.mu.Unlock()
	if id == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, restTime)
	defer cancel()
	_ = l.call.backend.Events(ctx, id, api.Since{Any: last}, false, l.pass)
}

// pass sends an event, if the client has not had it and wants its level.
func (l *logbook) pass(ev core.Event) error {
	l.mu.Lock()
	again := ev.Seq != 0 && ev.Seq <= l.last
	l.last = max(l.last, ev.Seq)
	l.mu.Unlock()
	if again || !l.call.session.hears(ev, l.since) {
		return nil
	}
	if level, data := logged(ev); levels[level] >= l.call.level {
		l.call.out.notify(string(mcp.MethodNotificationMessage), logNote{Level: level, Logger: logger, Data: data})
	}
	return nil
}

// hears reports whether an event is news to the session: a run that is gone on
// with has a past, which was sent before or is of no interest.
func (s *session) hears(ev core.Event, since time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, known := s.heard[ev.RunID]
	if known && ev.Seq <= last || !known && ev.At.Before(since) {
		return false
	}
	if s.heard == nil {
		s.heard = map[core.ID]int64{}
	}
	if !known && len(s.heard) >= maxHeard {
		clear(s.heard) // a line that comes twice harms less than memory that is never freed
	}
	s.heard[ev.RunID] = ev.Seq
	return true
}

// maxHeard bounds of how many runs a session remembers how much of their log it has sent.
const maxHeard = 1000

type logNote struct {
	Level  string `json:"level"`
	Logger string `json:"logger"`
	Data   any    `json:"data"`
}

// logged is what an event is to a client's log; levels[""] is below all.
func logged(ev core.Event) (level string, data any) {
	said := map[string]any{"workflow_id": ev.RunID, "message": core.Visible(ev.Message, 4000, true)}
	if ev.Tool != "" {
		said["tool"] = core.Visible(ev.Tool, 200, false)
	}
	switch ev.Type {
	case core.EventTaskLog:
		return logLevel(ev.Message), said
	case core.EventTaskWarning:
		return "warning", said
	case core.EventApprovalRequested:
		said["checkpoint_id"] = ev.ApprovalID
		said["message"] = core.Visible(ev.Tool, 200, false) + " waits for a person"
		return "notice", said
	case core.EventTaskError, core.EventWorkflowFailed:
		if ev.Error != nil {
			said["message"] = core.Visible(ev.Error.Message, 4000, true)
		}
		return "error", said
	default:
		return "", nil
	}
}

// logLevel is the level of a line of a script: one that was not written by
// console.log has its level before it.
func logLevel(line string) string {
	switch before, _, _ := strings.Cut(line, ": "); before {
	case "debug", "trace":
		return "debug"
	case "warn":
		return "warning"
	case "error":
		return "error"
	}
	return "info"
}

// setLogLevel is logging/setLevel of the revisions with sessions.
func (e *Edge) setLogLevel(s *session, m *message) *jsonrpc.Error {
	var level string
	_ = json.Unmarshal(m.Params.Level, &level)
	n, ok := levels[level]
	if !ok {
		return &jsonrpc.Error{Code: mcp.INVALID_PARAMS, Message: "the level must be one of debug, info, notice, warning, error, critical, alert, emergency"}
	}
	s.setLevel(n)
	return nil
}
