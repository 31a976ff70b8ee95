package temporal

import (
	"context"
	"slices"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/store"
)

// Met counts the runs that a process has had to do with.
func Met(s *Store) int { return len(s.recent.runs()) }

// Forget makes a process forget what it has met.
func Forget(s *Store) {
	s.recent.mu.Lock()
	defer s.recent.mu.Unlock()
	s.recent.young, s.recent.old = sight{}, sight{}
}

// SetPage sets how much the index is asked for at once.
func SetPage(s *Store, n int32) { s.page = n }

// TakeKey takes the idempotency key of a run and begins no run, as a process that is killed right then.
func TakeKey(ctx context.Context, s *Store, run core.Run) error { return s.takeKey(ctx, run) }

// Begin begins a run whose key was taken, as a process that was stopped right before and goes on.
func Begin(ctx context.Context, s *Store, in store.Step) error {
	next, err := s.prepare(&in)
	if err != nil {
		return err
	}
	next.At = s.opts.Clock.Now()
	return s.begin(ctx, next)
}

// EnterFlow has all processes know of a flow that has nothing yet, as a process that is killed before it begins
// the flow's workflow.
func EnterFlow(ctx context.Context, s *Store, key core.FlowKey) error { return s.enterFlow(ctx, key) }

// PutFlowRuns puts what a flow did into its blobs, as a process that is killed before it says so to the flow's workflow.
func PutFlowRuns(ctx context.Context, s *Store, runs ...core.FlowRun) error {
	_, err := s.putFlowRuns(ctx, runs[0].Key(), slices.Clone(runs))
	return err
}

// PutPast puts the parts of a copy into the blobs, as a process that is killed before it begins the copy's workflow.
func PutPast(ctx context.Context, s *Store, in store.Step) error {
	next, err := s.prepare(&in)
	if err == nil {
		_, err = s.beginning(ctx, next, newState(next, s.opts.Clock.Now()))
	}
	return err
}

// FlowWorkflow is the id of the workflow of a flow.
func FlowWorkflow(s *Store, key core.FlowKey) string { return s.flowWorkflowOf(key) }

// KeyWorkflow is the id of the workflow of an idempotency key.
func KeyWorkflow(s *Store, workspace, key string) string { return s.keyWorkflowOf(workspace, key) }

// Codec is what encrypts payloads.
type Codec = converter.PayloadCodec

// NewCodec is the codec of a workflow.
func NewCodec(t testing.TB, keys Keys, workflow string) Codec {
	return codec{ring: mustRing(t, keys), workflow: workflow}
}

// EncryptedBlobs are blobs that are encrypted.
func EncryptedBlobs(t *testing.T, keys Keys, in Blobs) Blobs {
	return encryptedBlobs{in, mustRing(t, keys)}
}

// Label names a key in what was written with it.
func Label(k Key) string { return k.label() }

// Client is a client of Temporal that has the keys of an installation.
func Client(t *testing.T, opts Options) client.Client {
	t.Helper()
	s, err := newService(opts)
	if err != nil {
		t.Fatal(err)
	}
	c, err := dial(t.Context(), opts, s.conv)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func mustRing(t testing.TB, keys Keys) *ring {
	t.Helper()
	r, err := newRing(keys)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// CheckRetention is the finding about a namespace's retention.
func CheckRetention(namespace string, is time.Duration) api.Check {
	return (&service{opts: Options{Namespace: namespace}}).checkRetention(is)
}

// BeginNamespace begins a namespace that lacks everything else.
func BeginNamespace(ctx context.Context, opts Options) error {
	c, err := dial(ctx, opts, newConverters(nil, formatNow, nil))
	if err != nil {
		return err
	}
	defer c.Close()
	return beginNamespace(ctx, c, opts.Namespace)
}

// Older reports whether a version of Temporal's server is an older minor one than another.
func Older(version, than string) bool { return older(version, than) }

// WithFormat are options of a pml that writes another format.
func WithFormat(opts Options, format int) Options {
	opts.format = format
	return opts
}

// RegisterDeaf makes a process a runner that does not get the activity by which it would give signs of life. began is told the id of the runner's
// workflow.
func RegisterDeaf(ctx context.Context, s *Store, began func(workflow string)) error {
	r := newRunner(s)
	began(s.runnerWorkflow(r.id))
	return beginRunner(ctx, s, r)
}

// KeepEvents has the process remember so many events of all runs.
func (s *Store) KeepEvents(n int) {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	s.feed.kept = n
}

// TouchEvents says that a run may have new events.
func (s *Store) TouchEvents(run core.ID) { s.feed.touch(run) }

// ReadsEvents reports whether the new events of a run are being read right now.
func (s *Store) ReadsEvents(run core.ID) bool {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	return s.feed.reading[run] != nil
}
