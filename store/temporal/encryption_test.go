package temporal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/proto"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/temporal"
)

// raw is a client of Temporal that knows no keys.
func raw(t *testing.T, opts temporal.Options) client.Client {
	t.Helper()
	c, err := client.DialContext(t.Context(), client.Options{HostPort: opts.Address, Namespace: opts.Namespace, Logger: silent{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func historyOf(t *testing.T, c client.Client, workflow string) (events []*historypb.HistoryEvent) {
	t.Helper()
	for it := c.GetWorkflowHistory(t.Context(), workflow, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); it.HasNext(); {
		e, err := it.Next()
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	return events
}

// everything is all that Temporal has of some workflows of an installation, and all of its blobs.
func everything(t *testing.T, opts temporal.Options, dir string, workflows []string) []byte {
	t.Helper()
	c := raw(t, opts)
	var all bytes.Buffer
	add := func(m proto.Message, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		text, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	for _, id := range workflows {
		for _, e := range historyOf(t, c, opts.Name+"/"+id) {
			add(e, nil)
		}
		add(c.DescribeWorkflowExecution(t.Context(), opts.Name+"/"+id, ""))
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var text []byte
			text, err = os.ReadFile(path)
			all.Write(text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.Bytes()
}

// failsOnce are blobs of which the first that is dropped fails, with a text.
type failsOnce struct {
	temporal.Blobs
	text   string
	failed atomic.Bool
}

func (b *failsOnce) Drop(of string, digests ...string) error {
	if b.failed.CompareAndSwap(false, true) {
		return errors.New(b.text)
	}
	return b.Blobs.Drop(of, digests...)
}

// secrets are texts that the test looks for, by where they are.
var secrets = map[string]string{
	"an input": "mark-in", "a result": "mark-result", "what a call sent": "mark-args", "what a question shows": "mark-asked", "a large value": "mark-large", "an error": "mark-error",
	"an event": "mark-event", "a row of the audit log": "mark-row", "what a flow did": "mark-flow", "a variable": "mark-variable", "a document": "mark-document", "a PIN": "mark-pin",
	"a script": "mark-script", "whose key it is": "mark-digest", "an activity that failed": "mark-activity",
}

// TestEncrypted_Nothing: with a key nothing of what runs read and return is readable in Temporal or in the blobs, and
// pml reads all of it. Without one all of it is, which shows that the test looks in the right places.
func TestEncrypted_Nothing(t *testing.T) {
	t.Parallel()
	for name, ks := range map[string]temporal.Keys{"Clear": nil, "Encrypted": keys("1")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts, dir := options(t), t.TempDir()
			opts.Keys, opts.Blobs = ks, &failsOnce{Blobs: temporal.Folder(dir), text: secrets["an activity that failed"]}
			all := everything(t, opts, dir, keepSecrets(t, opts))
			for where, secret := range secrets {
				if got := bytes.Contains(all, []byte(secret)); got != (len(ks) == 0) {
					t.Errorf("%s: readable %v", where, got)
				}
			}
		})
	}
}

// keepSecrets keeps each secret somewhere, and returns the workflows that have them.
func keepSecrets(t *testing.T, opts temporal.Options) (workflows []string) {
	t.Helper()
	w := enginetest.NewWorld(t, func() enginetest.Surroundings { return open(t, opts) })
	p := w.Process()
	program := w.Compile(`/* mark-script */ await mcp.a.read({secret: "mark-args", large: "mark-large".repeat(10000)}); await mcp.a.ask({secret: "mark-asked"}); return input.in + "mark-result";`)
	h := w.Start(p, program, core.RunOptions{Input: []byte(`{"in":"mark-in"}`)})
	w.Wait(h, enginetest.Pending(1))
	w.Decide(p.Store, h.ID, core.ApproveTool, true, nil)
	w.Complete(h, `"mark-inmark-result"`)
	failing := w.Code(p, `throw new Error("mark-error")`)
	w.Wait(failing, engine.Ended)

	s := p.Store.(*temporal.Store)
	run := keyedRun("k")
	run.IdempotencyDigest = "mark-digest"
	first := begun(run)
	first.Events = []core.Event{{Type: core.EventTaskLog, Message: "mark-event"}}
	flow := core.FlowKey{Workspace: "/w", Flow: "ask"}
	ended := newRun(time.Now(), func(r *core.Run) { r.State = core.RunComplete })
	did, gone := flowRun(flow, run.ID, 1), flowRun(flow, ended.ID, 2)
	did.Reason = "mark-flow"
	document := []byte(`"` + strings.Repeat("mark-document", 10_000) + `"`)
	for _, err := range []error{
		s.Commit(t.Context(), first), s.Record(t.Context(), core.AuditRow{Outcome: core.ApprovalApproved, Reason: "mark-row"}), s.SaveFlowRuns(t.Context(), did),
		s.SetFlowVariables(t.Context(), flow, core.FlowVariables{Version: 1, Values: map[string]json.RawMessage{"v": []byte(`"mark-variable"`)}}),
		s.SetNotices(t.Context(), document, 1), s.SetNotices(t.Context(), document, 1), // once more is no change
		s.ChangeGuard(t.Context(), func(g *core.Guard) error { g.Pin = "mark-pin"; return nil }),
		s.Commit(t.Context(), begun(ended)), s.SaveFlowRuns(t.Context(), gone), s.Remove(t.Context(), ended.ID),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	wantFlowRuns(t, s, store.FlowRunFilter{Key: flow}, did)
	if doc, _, err := s.Notices(t.Context()); err != nil || !bytes.Equal(doc, document) {
		t.Errorf("notices: %v", err)
	}
	again := begun(run)
	again.Run.ID = enginetest.NewID()
	if err := s.Commit(t.Context(), again); core.CodeOf(err) != core.CodeDuplicate || core.AsError(err).RunID != run.ID {
		t.Errorf("the holder of the key: %v", err)
	}
	return []string{
		"pml-shared", "pml-halt", "run/" + string(h.ID), "run/" + string(failing.ID), "run/" + string(run.ID), "runner/" + p.Runner.ID(),
		strings.TrimPrefix(temporal.FlowWorkflow(s, flow), opts.Name+"/"), strings.TrimPrefix(temporal.KeyWorkflow(s, "/w", "k"), opts.Name+"/"),
	}
}

// wantKeyError wants the error of a key that is missing, which names it.
func wantKeyError(t *testing.T, err error, names string) {
	t.Helper()
	if core.CodeOf(err) != core.CodeStoreKey || !strings.Contains(err.Error(), names) {
		t.Errorf("%v, want %s about %s", err, core.CodeStoreKey, names)
	}
}

// large is a step of a run with a value that goes to the blobs.
func large(run core.Run, seq int64) store.Step {
	return store.Step{Run: run, Records: []core.Record{{
		Seq: seq, Kind: core.RecordSettled, CallID: "c", Tool: "a:read", Outcome: core.OutcomeSuccess, Result: []byte(`"` + strings.Repeat("x", 100<<10) + `"`), At: time.Now().UTC(),
	}}}
}

// TestEncrypted_Rotation: what was written with one key is read and gone on with by those who write with another
// and have the first as well, beside each other; who has only the new one opens nothing.
func TestEncrypted_Rotation(t *testing.T) {
	t.Parallel()
	opts, dir := options(t), t.TempDir()
	opts.Keys, opts.Blobs = keys("1"), temporal.Folder(dir)
	s := open(t, opts)
	run := keyedRun("k")
	for _, step := range []store.Step{begun(run), large(run, 1)} {
		if err := s.Commit(t.Context(), step); err != nil {
			t.Fatal(err)
		}
	}
	_ = s.Close()
	opts.Keys = keys("1", "2")
	reads := open(t, opts)
	opts.Keys = keys("2", "1")
	writes := open(t, opts)
	t.Cleanup(func() { _, _ = reads.Close(), writes.Close() })
	if err := writes.Commit(t.Context(), large(run, 2)); err != nil {
		t.Fatal(err)
	}
	if err := writes.Record(t.Context(), core.AuditRow{Outcome: core.ApprovalApproved, Reason: "x"}); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*temporal.Store{reads, writes} {
		if records, err := s.Journal(t.Context(), run.ID, 0); err != nil || len(records) != 2 || len(records[1].Result) < 100<<10 {
			t.Errorf("journal: %d %v", len(records), err)
		}
		if rows, err := s.Audit(t.Context(), store.AuditFilter{}); err != nil || len(rows) != 1 {
			t.Errorf("audit: %v %v", rows, err)
		}
		if err := s.Commit(t.Context(), begun(keyedRun("k"))); core.CodeOf(err) != core.CodeDuplicate {
			t.Errorf("the key of the run: %v", err)
		}
	}
	all := everything(t, opts, dir, []string{"run/" + string(run.ID)})
	for label, blobs := range map[string]int{"1/": 2, "2/": 1} { // with the installation's mark
		if n := bytes.Count(all, []byte("binary/pml-encrypted-1\n"+label)); n != blobs {
			t.Errorf("%d blobs with the key %s", n, label)
		}
	}
	opts.Keys = keys("2")
	_, err := temporal.Open(t.Context(), opts)
	wantKeyError(t, err, "the key 1,")
}

// TestEncrypted_Open: who has no key, another one of the same id, or keys for what is in clear, opens nothing and
// is told why; nothing was changed.
func TestEncrypted_Open(t *testing.T) {
	t.Parallel()
	opts := options(t)
	opts.Keys = keys("1")
	s := open(t, opts)
	t.Cleanup(func() { _ = s.Close() })
	other := opts
	other.Keys = nil
	_, err := temporal.Open(t.Context(), other)
	wantKeyError(t, err, "no keys here")
	other.Keys = temporal.Keys{{ID: "1", Secret: keys("2")[0].Secret}}
	_, err = temporal.Open(t.Context(), other)
	wantKeyError(t, err, "another key 1")
	other.Keys = append(keys("1"), keys("1")...)
	if _, err = temporal.Open(t.Context(), other); core.CodeOf(err) != core.CodeInvalidConfig {
		t.Errorf("two keys of one id: %v", err)
	}
	plain := options(t)
	plain.Keys = nil
	p := open(t, plain)
	t.Cleanup(func() { _ = p.Close() })
	plain.Keys = keys("1")
	_, err = temporal.Open(t.Context(), plain)
	wantKeyError(t, err, "begun without keys")
	for _, s := range []*temporal.Store{s, p} {
		if err := s.Commit(t.Context(), begun(newRun(time.Now()))); err != nil {
			t.Error(err)
		}
	}
}

// TestEncrypted_Tampered: nothing that was encrypted is read once any of it was changed, nor as being of another workflow or run.
func TestEncrypted_Tampered(t *testing.T) {
	t.Parallel()
	put := temporal.NewCodec(t, keys("1"), "pml/run/a")
	sealed, err := put.Encode([]*commonpb.Payload{{Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte(`"secret"`)}})
	if err != nil {
		t.Fatal(err)
	}
	if back, err := put.Decode(sealed); err != nil || string(back[0].GetData()) != `"secret"` || string(back[0].GetMetadata()["encoding"]) != "json/plain" {
		t.Fatalf("%v %v", back, err)
	}
	refused := func(what string, c temporal.Codec, p *commonpb.Payload, code core.Code) {
		t.Helper()
		if got, err := c.Decode([]*commonpb.Payload{p}); core.CodeOf(err) != code {
			t.Errorf("%s: %v %v", what, got, err)
		}
	}
	refused("of another workflow", temporal.NewCodec(t, keys("1"), "pml/run/b"), sealed[0], core.CodeStoreFailed)
	refused("with another key", temporal.NewCodec(t, keys("2"), "pml/run/a"), sealed[0], core.CodeStoreKey)
	for i := range sealed[0].GetData() {
		p := proto.Clone(sealed[0]).(*commonpb.Payload)
		p.Data[i] ^= 1
		refused("a byte was changed", put, p, core.CodeStoreFailed)
	}
	for _, data := range [][]byte{nil, sealed[0].GetData()[:5], sealed[0].GetData()[:20]} {
		refused("cut off", put, &commonpb.Payload{Metadata: sealed[0].GetMetadata(), Data: data}, core.CodeStoreFailed)
	}
	two := temporal.NewCodec(t, keys("1", "2"), "pml/run/a")
	label := temporal.Label(keys("2")[0])
	refused("another label", two, &commonpb.Payload{Metadata: map[string][]byte{"encoding": sealed[0].GetMetadata()["encoding"], "pml-key": []byte(label)}, Data: sealed[0].GetData()}, core.CodeStoreFailed)

	dir := t.TempDir()
	blobs := temporal.EncryptedBlobs(t, keys("1"), temporal.Folder(dir))
	digest, err := blobs.Put("run-a", []byte(`"secret"`))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := blobs.Put("run-a", []byte(`"secret"`)); err != nil || again != digest {
		t.Errorf("put again it is another one: %s %v", again, err)
	}
	there, err := temporal.Folder(dir).Get("run-a", digest)
	if err != nil {
		t.Fatal(err)
	}
	for i := range there {
		changed := slices.Clone(there)
		changed[i] ^= 1
		moved, err := temporal.Folder(dir).Put("run-a", changed)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := blobs.Get("run-a", moved); err == nil {
			t.Errorf("byte %d: %q", i, got)
		}
	}
	of, err := temporal.Folder(dir).Put("run-b", there)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := blobs.Get("run-b", of); core.CodeOf(err) != core.CodeStoreFailed {
		t.Errorf("of another run: %q %v", got, err)
	}
	in, err := temporal.Folder(dir).Put("run-a", []byte(`"in clear"`))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := blobs.Get("run-a", in); core.CodeOf(err) != core.CodeStoreFailed {
		t.Errorf("in clear: %q %v", got, err)
	}
	if got, err := blobs.Get("run-a", digest); err != nil || string(got) != `"secret"` {
		t.Errorf("%q %v", got, err)
	}
}
