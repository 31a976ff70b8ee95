package temporal_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine/enginetest"
)

// swallow asks for work as processes do that then die: what they are given nobody else gets.
// The channel is closed when they were given so many queries.
func swallow(t *testing.T, address, queue string, queries int64) <-chan struct{} {
	t.Helper()
	c, err := client.Dial(client.Options{HostPort: address, Logger: silent{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	ctx, cancel := context.WithTimeout(t.Context(), enginetest.Hung)
	t.Cleanup(cancel)
	var given atomic.Int64
	done := make(chan struct{})
	for range 8 { // one of them is to be faster than who lives
		go func() {
			for ctx.Err() == nil {
				task, err := c.WorkflowService().PollWorkflowTaskQueue(ctx, &workflowservice.PollWorkflowTaskQueueRequest{
					Namespace: "default", TaskQueue: &taskqueuepb.TaskQueue{Name: queue, Kind: enumspb.TASK_QUEUE_KIND_NORMAL}, Identity: "dead",
				})
				if err != nil || task.GetQuery() == nil {
					continue
				}
				if given.Add(1) == queries {
					cancel()
					close(done)
				}
			}
		}()
	}
	return done
}

// A query that was given to a process which has died is asked anew, and soon, and once more
// where that happens again.
func TestQuery_GivenToTheDead(t *testing.T) {
	t.Parallel()
	opts := options(t)
	o := &orphanage{t, open(t, opts)}
	run := o.keep(core.RunRunning, "r1")
	if err := o.st.Close(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		given := swallow(t, opts.Address, opts.Name, 3)
		st := open(t, opts)
		for swallowed, deadline := false, time.Now().Add(enginetest.Hung); !swallowed; {
			asked := time.Now()
			_, err := st.Run(t.Context(), run.ID)
			if took := time.Since(asked); err != nil || took > 15*time.Second {
				t.Fatalf("after %s: %v", took, err)
			}
			select {
			case <-given:
				swallowed = true
				t.Logf("the answer took %s", time.Since(asked))
			default:
			}
			if time.Now().After(deadline) {
				t.Fatal("no query is given to who is dead: the test shows nothing")
			}
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
