package api

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
)

// RunFileVersion is the version of the format that this pml writes. It reads that one
// and older ones.
const RunFileVersion = 1

const runFileFormat = "pml-workflow"

// MaxRunFile is how long a file may be, in bytes: longer than any run that was kept
// within the usual limits.
const MaxRunFile = 512 << 20

// RunFile is one run in a file: pml workflows export writes it and import reads it.
type RunFile struct {
	Format     string    `json:"format"` // "pml-workflow"
	Version    int       `json:"version"`
	Pml        string    `json:"pml"` // the version of pml that wrote it
	ExportedAt time.Time `json:"exported_at"`
	// Digest is core.Digest of Workflow: a file that was changed or cut off is none.
	Digest string `json:"digest"`
	// Workflow is an ExportedRun.
	Workflow json.RawMessage `json:"workflow"`
}

// ExportedRun is what a store keeps of a run, large values within it, values of keys
// left out. Runner, epoch, owner and idempotency key belong to the store, and are
// not in it.
type ExportedRun struct {
	Run         core.Run          `json:"run"`
	Program     core.Program      `json:"program"`
	Journal     []core.Record     `json:"journal"`
	Checkpoints []core.Checkpoint `json:"checkpoints"`
	Approvals   []core.Approval   `json:"approvals"`
	Events      []core.Event      `json:"events"`
}

// ImportedRun is what came of reading a file.
type ImportedRun struct {
	WorkflowID core.ID       `json:"workflow_id"`
	State      core.RunState `json:"state"` // of the copy
	// Was is the state of the run when it was exported.
	Was core.RunState `json:"was"`
	// Already is set when just that run, or just that copy of it, was there before.
	Already bool   `json:"already_there"`
	Digest  string `json:"digest"`
}

// NewRunFile makes the file of a run.
func NewRunFile(r ExportedRun, at time.Time, pml string) (RunFile, error) {
	raw, err := json.Marshal(r)
	if err != nil {
		return RunFile{}, core.Errorf(core.CodeInternal, "the run %s cannot be written as JSON: %w", r.Run.ID.Short(), err).WithRun(r.Run.ID)
	}
	digest, err := core.Digest(raw)
	return RunFile{Format: runFileFormat, Version: RunFileVersion, Pml: pml, ExportedAt: at.UTC(), Digest: digest, Workflow: raw}, err
}

func refusedFile(text string, args ...any) *core.Error {
	return core.Errorf(core.CodeInvalidArguments, "the file cannot be imported: "+text+"; nothing was changed", args...)
}

// ParseRunFile reads a file and verifies it: its format and version, that it is whole
// and unchanged, and that the parts of the run belong together.
func ParseRunFile(data []byte) (f RunFile, r ExportedRun, err error) {
	if len(data) > MaxRunFile {
		return f, r, refusedFile("it has %d bytes, more than %d", len(data), MaxRunFile)
	}
	if core.TooDeep(data) {
		return f, r, refusedFile("it is nested more than %d levels deep", core.MaxDepth)
	}
	if err := json.Unmarshal(data, &f); err != nil || f.Format != runFileFormat {
		return f, r, refusedFile("it is no file that pml workflows export has written, or was cut off")
	}
	if f.Version > RunFileVersion {
		return f, r, core.Errorf(core.CodeStoreNewer, "the file has format %d and this pml knows formats up to %d: it was written by pml %s; update pml",
			f.Version, RunFileVersion, core.Visible(f.Pml, 40, false)).WithNext("pml", "version")
	}
	if err := core.CheckKeys("the file", data); err != nil {
		return f, r, refusedFile("%w", err)
	}
	if digest, err := core.Digest(f.Workflow); err != nil || digest != f.Digest {
		return f, r, refusedFile("it is not what was exported: its digest is another one")
	}
	var flat bytes.Buffer // values are kept as they stand here
	if err := json.Compact(&flat, f.Workflow); err != nil {
		return f, r, refusedFile("its run is no JSON: %w", err)
	}
	if err := json.Unmarshal(flat.Bytes(), &r); err != nil {
		return f, r, refusedFile("its run cannot be read: %w", err)
	}
	if wrong := r.wrong(); wrong != "" {
		return f, r, refusedFile("%s", wrong)
	}
	return f, r, nil
}

// wrong says what no run of pml has, nothing if all is well.
func (r ExportedRun) wrong() string {
	id := r.Run.ID
	switch {
	case id == "" || len(id) > 64 || core.Visible(string(id), 0, false) != string(id):
		return "its run has no id that a run can have"
	case !slices.Contains(core.RunStates, r.Run.State):
		return "its run has no state that a run can have"
	case r.Run.JournalSeq != int64(len(r.Journal)):
		return "its journal is not complete"
	case r.Run.CreatedAt.IsZero() || r.Run.Kind == "" || r.Program.Version < 1:
		return "its run has no beginning or no program"
	}
	for i, rec := range r.Journal {
		if rec.Seq != int64(i)+1 {
			return "its journal has a gap"
		}
	}
	for _, c := range r.Checkpoints {
		if c.RunID != id {
			return "it has a checkpoint of another run"
		}
	}
	seen := map[core.ID]bool{}
	for _, a := range r.Approvals {
		if a.RunID != id || seen[a.ID] {
			return "it has an approval of another run, or one twice"
		}
		seen[a.ID] = true
	}
	for _, e := range r.Events {
		if e.RunID != id || !slices.Contains(core.EventTypes, e.Type) {
			return "it has an event of another run, or of a type that is not known"
		}
	}
	return ""
}
