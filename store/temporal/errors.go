package temporal

import (
	"context"
	"errors"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// refused is the type of an error with which a workflow of pml refuses what is asked of it.
const refused = "pml-refused"

// refusal is an error of the rules as a workflow returns it.
func refusal(err error) error {
	if err == nil {
		return nil
	}
	e := core.AsError(err)
	return temporal.NewApplicationErrorWithOptions(e.Message, refused, temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{e}})
}

// failure is an error of the service as the rest of pml knows it: what a workflow has refused
// as it was said, and otherwise core.CodeStoreFailed or, where it may pass soon,
// core.CodeStoreBusy. run is the one that it is about, or empty.
func failure(err error, run core.ID) error {
	var (
		app      *temporal.ApplicationError
		missing  *serviceerror.NotFound
		twice    *serviceerror.WorkflowExecutionAlreadyStarted
		busy     *serviceerror.ResourceExhausted
		notReady *serviceerror.WorkflowNotReady
		mine     *core.Error
	)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &mine):
		return err
	case errors.As(err, &app) && app.Type() == refused:
		var e core.Error
		if err := app.Details(&e); err == nil {
			return &e
		} else if errors.As(err, &mine) {
			return err
		}
	case errors.As(err, &missing) && run != "":
		return store.NoRun(run)
	case errors.As(err, &twice):
		return store.Duplicate(run, "there is a run %s already", run)
	case errors.As(err, &busy), errors.As(err, &notReady):
		return core.Errorf(core.CodeStoreBusy, "Temporal is busy: %w", err).WithRun(run)
	case errors.Is(err, converter.ErrUnableToEncode):
		return core.Errorf(core.CodeInvalidArguments, "cannot be stored: %w", err).WithRun(run)
	case errors.Is(err, context.Canceled):
		return core.Errorf(core.CodeCancelled, "stopped waiting for Temporal: %w", err).WithRun(run)
	}
	return core.Errorf(core.CodeStoreFailed, "Temporal does not answer: %w; look at the address, the namespace and whether the service is up", err).WithRun(run)
}

// stopped is the error of a request whose caller has stopped waiting, which the service tells in
// words of its own.
func stopped(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
