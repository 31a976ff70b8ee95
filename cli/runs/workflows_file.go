package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// exportReport says what was written to which file.
type exportReport struct {
	File       string        `json:"file"`
	WorkflowID core.ID       `json:"workflow_id"`
	State      core.RunState `json:"state"`
	Digest     string        `json:"digest,omitempty"` // of a page there is none
	Bytes      int           `json:"bytes"`
}

func workflowsExportCmd(a *app.App) *cobra.Command {
	var html bool
	cmd := &cobra.Command{
		Use:   "export ID|NAME [FILE]",
		Short: "Write a run to a file",
		Long: `Writes all that is kept of a run, of this machine or of its server, as one JSON document to FILE, which must not exist yet, or to standard output: program, journal,
checkpoints, approvals, events and all large values. Values of keys are left out as everywhere. The document says its format and has a digest, so that
pml workflows import finds out whether it is whole.

--html writes a page for people in its place: one file that a browser shows without a script and without asking anybody for anything, with the
calls, long values cut, and each decision. It has the run's lines of the audit log in it, which pml audit verify --export compares with the log.

The file holds what the run holds: arguments, results, what was decided and by whom. It is readable by you alone (mode 0600).`,
		Example: "  pml workflows export 7f3a91c2 run.json\n  pml workflows export @latest | jq .workflow.run.state\n" +
			"  pml workflows export 7f3a91c2 run.html --html\n  pml audit verify --export run.html",
		Args: func(cmd *cobra.Command, args []string) error {
			return errors.Join(app.ExactArgs("ID")(cmd, args[:min(len(args), 1)]), app.NoMore(cmd, args, 2))
		},
		ValidArgsFunction: completeRuns(a),
		RunE: a.With(func(ctx context.Context, b app.Backend, args []string) error {
			id, err := findRun(ctx, a, b, args[0])
			if err != nil {
				return err
			}
			if html {
				return exportPage(ctx, a, b, id, args[1:])
			}
			return exportRun(ctx, a, b, id, args[1:])
		}),
	}
	cmd.Flags().BoolVar(&html, "html", false, "a page for people, to be shown by a browser")
	return cmd
}

func exportRun(ctx context.Context, a *app.App, b app.Backend, id core.ID, file []string) error {
	f, err := b.ExportRun(ctx, id)
	if err != nil {
		return err
	}
	if len(file) == 0 {
		return a.Encode(f, app.FormatJSON)
	}
	raw, err := json.Marshal(f)
	if err != nil {
		return core.Errorf(core.CodeInternal, "cannot encode the run: %w", err)
	}
	var run struct {
		Run core.Run `json:"run"`
	}
	if err := json.Unmarshal(f.Workflow, &run); err != nil {
		return core.Errorf(core.CodeInternal, "the exported run cannot be read: %w", err)
	}
	if err := writeNew(file[0], append(raw, '\n')); err != nil {
		return err
	}
	r := exportReport{File: file[0], WorkflowID: id, State: run.Run.State, Digest: f.Digest, Bytes: len(raw) + 1}
	return a.Print(r, app.Line("exported %s (%s) to %s", id.Short(), r.State, core.Visible(r.File, 0, false)))
}

// writeNew writes a file that must not exist yet, readable by its owner alone.
func writeNew(name string, data []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return app.Usagef("%s is there already; name a file that is not", core.Visible(name, 200, false))
	case err != nil:
		return app.Usagef("cannot write %s: %w", core.Visible(name, 200, false), err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return core.Errorf(core.CodeStoreFailed, "cannot write %s: %w", core.Visible(name, 200, false), errors.Join(err, os.Remove(name)))
	}
	return nil
}

func workflowsImportCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "import FILE",
		Short: "Keep a copy of a run that was exported",
		Long: `Reads FILE (- for standard input), which pml workflows export has written, verifies it, and keeps a copy of its run on this machine, under the run's own id, to be
listed, shown and searched like any other.

The copy has ended for good: pml never takes it up, retries it or asks about it, so that no call of the run is made on two machines. A run that had not ended when it was
exported is "aborted" here, its open approvals are superseded, and what was decided about it there counts for nothing here. The same file again changes
nothing; a run of the same id that is not the same is left alone, and the import is refused.`,
		Example: "  pml workflows import run.json\n  ssh build pml workflows export @latest | pml workflows import -",
		Args:    app.ExactArgs("FILE"),
		RunE:    func(cmd *cobra.Command, args []string) error { return importRun(cmd.Context(), a, args[0]) },
	}
}

func importRun(ctx context.Context, a *app.App, file string) error {
	data, err := a.ReadUpTo(ctx, file, api.MaxRunFile)
	if err != nil {
		return err
	}
	b, err := a.Backend(ctx)
	if err != nil {
		return err
	}
	r, err := b.ImportRun(ctx, data)
	if err != nil {
		return err
	}
	return a.Print(r, func(w *strings.Builder) {
		id := r.WorkflowID.Short()
		switch {
		case r.Already:
			fmt.Fprintf(w, "%s is already there\n", id)
		case r.Was != r.State:
			fmt.Fprintf(w, "imported a copy of %s, which was %s; here it is %s and does not go on\n", id, r.Was, r.State)
		default:
			fmt.Fprintf(w, "imported a copy of %s (%s)\n", id, r.State)
		}
	})
}
