//go:build unix

package pmltest

import (
	"context"
	"sync"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/client"
	"github.com/casys-ai/pml/core/daemon"
)

// Node is a server and a client of its socket, in this process.
type Node struct {
	*Machine
	*Process
	Client *client.Client
	args   []string
}

// Node starts a server.
func (m *Machine) Node(args ...string) *Node {
	m.T.Helper()
	n := &Node{Machine: m, args: append([]string{"serve"}, args...)}
	n.Up()
	var err error
	n.Client, err = client.New(client.Options{Socket: n.Socket(), Workspace: m.WS, Checked: true, Clock: Clock{}})
	if err != nil {
		m.T.Fatal(err)
	}
	m.T.Cleanup(func() { _ = n.Client.Close() })
	return n
}

// Up starts the server, again after it has ended.
func (n *Node) Up() {
	n.Machine.T.Helper()
	n.Process = n.Start(n.args...)
	n.Listening(n.Process)
}

// Socket is the path at which the server of this home listens.
func (m *Machine) Socket() string {
	m.T.Helper()
	rec, ok := daemon.ReadRecord(m.Home)
	if !ok {
		m.T.Fatal("no server has said where it is")
	}
	return rec.Socket
}

// Begin starts a run and does not wait for it.
func (n *Node) Begin(req api.ExecuteRequest) core.ID {
	n.Machine.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	r, err := n.Client.Execute(ctx, req)
	if err != nil {
		n.Machine.T.Fatal(err)
	}
	return r.WorkflowID
}

// Records are the journal of a run.
func (n *Node) Records(id core.ID) []core.Record {
	n.Machine.T.Helper()
	list, err := n.Client.Records(context.Background(), id, 0)
	if err != nil {
		n.Machine.T.Fatal(err)
	}
	return list
}

// Follower follows the events of a server over its restarts.
type Follower struct {
	mu    sync.Mutex
	list  []core.Event
	ended map[core.ID]core.EventType
	done  chan struct{}
	err   error
	stop  context.CancelFunc
}

// Follow starts a reader; every event must have the number after the last one.
func (n *Node) Follow() *Follower {
	t := n.Machine.T
	ctx, cancel := context.WithTimeout(context.Background(), LongPatience)
	r := &Follower{done: make(chan struct{}), stop: cancel, ended: map[core.ID]core.EventType{}}
	go func() {
		defer close(r.done)
		r.err = n.Client.Events(ctx, "", api.Since{}, true, func(e core.Event) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			if want := int64(len(r.list)) + 1; e.Seq != want {
				t.Errorf("event %d, want %d: %s of %s", e.Seq, want, e.Type, e.RunID)
			}
			r.list = append(r.list, e)
			switch e.Type {
			case core.EventWorkflowComplete, core.EventWorkflowFailed, core.EventWorkflowAbort, core.EventWorkflowExpired:
				if was := r.ended[e.RunID]; was != "" {
					t.Errorf("%s ended with %s and then with %s", e.RunID, was, e.Type)
				}
				r.ended[e.RunID] = e.Type
			default:
			}
			return nil
		})
		if ctx.Err() == nil {
			t.Errorf("a reader of events gave up: %v", r.err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-r.done
	})
	return r
}

// Seen is how many events there were, and how many of them ended a run.
func (r *Follower) Seen() (events, ended int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.list), len(r.ended)
}

// Events is what a reader has seen.
func (r *Follower) Events() []core.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]core.Event{}, r.list...)
}
