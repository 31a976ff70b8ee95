package runs

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/cli/program"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// maxFileCompared is how large a file may be to be compared with a run's program, in bytes.
const maxFileCompared = 1 << 20

// noteChanged tells a person who may have corrected the file of a run that a retry does
// not run it, and returns the file then. What cannot be found out is passed over: the retry
// does not need it.
func noteChanged(ctx context.Context, a *app.App, b app.Backend, id core.ID) (file string) {
	if !a.Human() || a.Flags.Quiet {
		return ""
	}
	kept, err := keptProgram(ctx, b, id)
	if err != nil || kept.File == "" {
		return ""
	}
	if changed, err := fileDiffers(ctx, a, b, kept); err != nil || !changed {
		return ""
	}
	a.Note("note: %s is not the program that this run was started with; retry runs the program as it was started; pml run %s runs the file as it is now",
		core.Visible(kept.File, 0, false), layout.ShellQuote(core.Visible(kept.File, 0, false)))
	return kept.File
}

// asItWas asks a person at a terminal whose file has changed whether to make the calls again
// all the same: who has corrected the file means another command.
func asItWas(ctx context.Context, a *app.App, file string) error {
	if file == "" || !a.CanAsk() {
		return nil
	}
	yes, err := a.AskYes(ctx, "retry the program as it was?")
	if err == nil && !yes {
		a.Say("nothing was run again; next: pml run %s", layout.ShellQuote(core.Visible(file, 0, false)))
		err = app.ExitStatus(app.ExitFailed)
	}
	return err
}

// runsFile is the error of a retry that has failed as before. Where a corrected file is there
// that is what helps, not another retry.
func runsFile(err error, file string) error {
	var failed app.FailedRun
	if file != "" && errors.As(err, &failed) && len(failed.Err.Next) > 1 && failed.Err.Next[1] == "retry" {
		failed.Err.Next = []string{"pml", "run", file}
	}
	return err
}

// fileOf is the file of a run's program, empty where it is not known or not there any more.
func fileOf(ctx context.Context, b app.Backend, id core.ID) string {
	kept, err := keptProgram(ctx, b, id)
	if err != nil {
		return ""
	}
	return kept.File
}

// anew is what a result names as next: to a person whose run has failed on a fault of its
// program, to run the file of it. A program that follows next would make the calls of the
// unmended file again.
func anew(ctx context.Context, a *app.App, b app.Backend, r api.Result) []string {
	var failed app.FailedRun
	if !errors.As(app.ResultError(r), &failed) || !a.Human() || r.Kind == core.KindAgent || len(failed.Err.Next) > 0 || !failed.Err.OfProgram() {
		return r.Next
	}
	if file := fileOf(ctx, b, r.WorkflowID); file != "" {
		return []string{"pml", "run", file}
	}
	return nil
}

// keptProgram is the program that is kept with a run of this workspace, empty where its
// file is on another machine or may be that of another folder.
func keptProgram(ctx context.Context, b app.Backend, id core.ID) (core.Program, error) {
	w, err := b.Workflow(ctx, id)
	if err != nil {
		return core.Program{}, err
	}
	paths, err := b.Paths(ctx)
	if err != nil || w.Side == core.SideServer || w.Imported != nil || w.Workspace != paths.Workspace {
		return core.Program{}, err
	}
	f, err := b.ExportRun(ctx, id)
	if err != nil {
		return core.Program{}, err
	}
	var r api.ExportedRun
	if err := json.Unmarshal(f.Workflow, &r); err != nil || !insideOf(paths.Workspace, r.Program.File) {
		return core.Program{}, err
	}
	return r.Program, nil
}

// insideOf reports whether a file is a small regular one below a folder.
func insideOf(folder, file string) bool {
	full, err := filepath.Abs(file)
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(folder, full)
	if err != nil || !filepath.IsLocal(rel) {
		return false
	}
	st, err := os.Stat(full)
	return err == nil && st.Mode().IsRegular() && st.Size() <= maxFileCompared
}

// fileDiffers reports whether the file of a program holds another one now.
func fileDiffers(ctx context.Context, a *app.App, b app.Backend, kept core.Program) (bool, error) {
	p, err := program.Read(ctx, a, program.Source{File: kept.File})
	if err != nil {
		return false, err
	}
	now, err := p.Request(b, nil)
	if err != nil {
		return false, err
	}
	if len(kept.Added) > 0 { // a replan has put tasks behind those of the file
		kept.Tasks = kept.Tasks[:min(kept.Added[0].From, len(kept.Tasks))]
	}
	was, err := plainJSON(kept.Tasks)
	if err != nil {
		return false, err
	}
	is, err := plainJSON(now.Tasks)
	if err != nil {
		return false, err
	}
	differs := kept.Source != now.Code || !reflect.DeepEqual(was, is)
	return differs && !marked(kept), nil
}

// plainJSON is a value as its JSON reads.
func plainJSON(v any) (out any, err error) {
	raw, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	return out, err
}

// marked reports whether a program may have a mark in it in place of the value of a key,
// so that it cannot be compared.
func marked(p core.Program) bool {
	raw, err := json.Marshal(p)
	return err != nil || strings.Contains(string(raw), "«")
}
