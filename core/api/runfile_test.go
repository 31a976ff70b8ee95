package api_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

const anID core.ID = "7f3a91c2-0000-4000-8000-000000000001"

// ended is a run with one of each part.
func ended() api.ExportedRun {
	at := time.Date(2026, 11, 23, 8, 0, 0, 123, time.UTC)
	return api.ExportedRun{
		Run:         core.Run{ID: anID, Kind: core.KindCode, State: core.RunComplete, CreatedAt: at, UpdatedAt: at, JournalSeq: 1, Result: json.RawMessage(`{"n":1.50}`)},
		Program:     core.Program{Kind: core.KindCode, Version: 1, Source: "return \"<&>\""},
		Journal:     []core.Record{{Seq: 1, Kind: core.RecordSettled, CallID: "c1", Outcome: core.OutcomeSuccess, Result: json.RawMessage(`12345678901234567890`), At: at}},
		Checkpoints: []core.Checkpoint{{ID: "c", RunID: anID, JournalSeq: 1, CreatedAt: at}},
		Approvals:   []core.Approval{{ID: "a", RunID: anID, State: core.ApprovalApproved, Context: json.RawMessage(`{}`), CreatedAt: at}},
		Events:      []core.Event{{Seq: 7, Type: core.EventWorkflowStart, RunID: anID, At: at}},
	}
}

func file(t testing.TB, change func(*api.ExportedRun)) []byte {
	t.Helper()
	r := ended()
	if change != nil {
		change(&r)
	}
	f, err := api.NewRunFile(r, time.Unix(1, 0), "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestRunFile: what was written is read, also after another program has laid it out
// anew.
func TestRunFile(t *testing.T) {
	t.Parallel()
	raw := file(t, nil)
	var wide bytes.Buffer
	if err := json.Indent(&wide, raw, "", "\t"); err != nil {
		t.Fatal(err)
	}
	for _, data := range [][]byte{raw, wide.Bytes()} {
		f, r, err := api.ParseRunFile(data)
		if err != nil || f.Version != api.RunFileVersion || f.Pml != "1.2.3" {
			t.Fatalf("%+v, %v", f, err)
		}
		if diff := cmp.Diff(ended(), r); diff != "" {
			t.Error(diff)
		}
	}
}

// TestRunFile_Cut: a file that ends too early is none, wherever it was cut.
func TestRunFile_Cut(t *testing.T) {
	t.Parallel()
	raw := file(t, nil)
	for at := range raw {
		if _, _, err := api.ParseRunFile(raw[:at]); core.CodeOf(err) != core.CodeInvalidArguments {
			t.Fatalf("cut at %d of %d: %v", at, len(raw), err)
		}
	}
}

// TestRunFile_Refused: what no pml has written, or not like this, is refused.
func TestRunFile_Refused(t *testing.T) {
	t.Parallel()
	replaced := func(old, new string) []byte {
		raw := file(t, nil)
		if !bytes.Contains(raw, []byte(old)) {
			t.Fatalf("no %s in %s", old, raw)
		}
		return bytes.Replace(raw, []byte(old), []byte(new), 1)
	}
	for name, c := range map[string]struct {
		data []byte
		code core.Code
		says string
	}{
		"Newer":          {replaced(`"version":1,"pml"`, `"version":2,"pml"`), core.CodeStoreNewer, "update pml"},
		"OtherFormat":    {replaced(`"pml-workflow"`, `"pml-backup"`), core.CodeInvalidArguments, "no file that pml workflows export has written"},
		"Changed":        {replaced(`"approved"`, `"denied"`), core.CodeInvalidArguments, "its digest is another one"},
		"Number":         {replaced(`12345678901234567890`, `12345678901234567891`), core.CodeInvalidArguments, "its digest is another one"},
		"Twice":          {replaced(`"digest":`, `"digest":"x","digest":`), core.CodeInvalidArguments, "twice"},
		"TwiceWithin":    {replaced(`"kind":"code"`, `"kind":"dag","kind":"code"`), core.CodeInvalidArguments, "twice"},
		"Deep":           {[]byte(strings.Repeat("[", 20000)), core.CodeInvalidArguments, "levels deep"},
		"BadID":          {file(t, func(r *api.ExportedRun) { r.Run.ID = "\x1b[2J" }), core.CodeInvalidArguments, "no id"},
		"NoID":           {file(t, func(r *api.ExportedRun) { r.Run.ID = "" }), core.CodeInvalidArguments, "no id"},
		"State":          {file(t, func(r *api.ExportedRun) { r.Run.State = "asleep" }), core.CodeInvalidArguments, "no state"},
		"Short":          {file(t, func(r *api.ExportedRun) { r.Journal = nil }), core.CodeInvalidArguments, "not complete"},
		"Gap":            {file(t, func(r *api.ExportedRun) { r.Journal[0].Seq = 2 }), core.CodeInvalidArguments, "gap"},
		"NoProgram":      {file(t, func(r *api.ExportedRun) { r.Program = core.Program{} }), core.CodeInvalidArguments, "no program"},
		"OtherMark":      {file(t, func(r *api.ExportedRun) { r.Checkpoints[0].RunID = "b" }), core.CodeInvalidArguments, "of another run"},
		"OtherApproval":  {file(t, func(r *api.ExportedRun) { r.Approvals[0].RunID = "b" }), core.CodeInvalidArguments, "of another run"},
		"ApprovalTwice":  {file(t, func(r *api.ExportedRun) { r.Approvals = append(r.Approvals, r.Approvals[0]) }), core.CodeInvalidArguments, "twice"},
		"OtherEvent":     {file(t, func(r *api.ExportedRun) { r.Events[0].RunID = "b" }), core.CodeInvalidArguments, "of another run"},
		"UnknownEvent":   {file(t, func(r *api.ExportedRun) { r.Events[0].Type = "x" }), core.CodeInvalidArguments, "not known"},
		"SomethingAfter": {append(file(t, nil), '1'), core.CodeInvalidArguments, "no file"},
	} {
		_, _, err := api.ParseRunFile(c.data)
		if core.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzParseRunFile: any bytes are refused or are a run whose parts belong together and
// that can be written and read again.
func FuzzParseRunFile(f *testing.F) {
	f.Add(file(f, nil))
	f.Add(file(f, func(r *api.ExportedRun) { r.Events, r.Approvals = nil, nil }))
	f.Add([]byte(`{"format":"pml-workflow","version":1,"digest":"sha256:","workflow":null}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		// The bytes are also taken for the run of a file with the right digest.
		if digest, err := core.Digest(raw); err == nil && json.Valid(raw) {
			whole, err := json.Marshal(api.RunFile{Format: "pml-workflow", Version: 1, Digest: digest, Workflow: raw})
			if err != nil {
				t.Fatal(err)
			}
			tryParse(t, whole)
		}
		tryParse(t, raw)
	})
}

func tryParse(t *testing.T, raw []byte) {
	_, r, err := api.ParseRunFile(raw)
	if err != nil {
		if c := core.CodeOf(err); c != core.CodeInvalidArguments && c != core.CodeStoreNewer {
			t.Errorf("%v", err)
		}
		return
	}
	if r.Run.ID == "" || int64(len(r.Journal)) != r.Run.JournalSeq {
		t.Errorf("%+v", r.Run)
	}
	f, err := api.NewRunFile(r, time.Unix(1, 0), "x")
	if err != nil {
		return // a time outside of the years that JSON has, for one
	}
	again, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := api.ParseRunFile(again); err != nil {
		t.Errorf("written again: %v", err)
	}
}
