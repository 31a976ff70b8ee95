package temporal

import (
	"context"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/casys-ai/pml/core"
)

// Prepare adds to a namespace what pml needs there and is missing: the search attributes by
// which runs are found and listed. One process does that, once, before any opens the
// store: of several that add an attribute at the same time each may get a column of its own, and
// Temporal then finds some runs by the one and some by the other. Where pml may not add them, as
// in Temporal Cloud, whoever owns the namespace does.
func Prepare(ctx context.Context, opts Options) error {
	c, err := dial(ctx, opts, newConverters(nil, nil))
	if err != nil {
		return err
	}
	defer c.Close()
	missing, err := unindexed(ctx, c, opts.Namespace)
	if err != nil || len(missing) == 0 {
		return failure(err, "")
	}
	_, err = c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{Namespace: opts.Namespace, SearchAttributes: missing})
	if err != nil {
		return core.Errorf(core.CodeStoreFailed, "cannot add search attributes to the namespace %q: %w; whoever owns it adds them: %s", opts.Namespace, err, byHand())
	}
	return nil
}

// byHand is how the search attributes are added without pml.
func byHand() string {
	command := "temporal operator search-attribute create"
	for _, a := range attributes {
		command += " --name " + a.name + " --type " + a.kind.String()
	}
	return command
}

// unindexed are the search attributes that a namespace lacks.
func unindexed(ctx context.Context, c client.Client, namespace string) (map[string]enumspb.IndexedValueType, error) {
	l, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return nil, err
	}
	missing := map[string]enumspb.IndexedValueType{}
	for _, a := range attributes {
		missing[a.name] = a.kind
	}
	for name := range l.GetCustomAttributes() {
		delete(missing, name)
	}
	return missing, nil
}

// mustBeIndexed is the error of a namespace that nobody has prepared.
func mustBeIndexed(ctx context.Context, c client.Client, namespace string) error {
	missing, err := unindexed(ctx, c, namespace)
	if err == nil && len(missing) > 0 {
		return core.Errorf(core.CodeStoreFailed, "the namespace %q has not all search attributes by which pml finds runs; add them once: %s", namespace, byHand())
	}
	return failure(err, "")
}

func clientOptions(opts Options, conv converters) client.Options {
	o := client.Options{HostPort: opts.Address, Namespace: opts.Namespace, MetricsHandler: opts.Metrics, DataConverter: conv.data, FailureConverter: conv.failures}
	if opts.Logger != nil {
		o.Logger = sdklog.NewStructuredLogger(opts.Logger)
	}
	return o
}

func dial(ctx context.Context, opts Options, conv converters) (client.Client, error) {
	c, err := client.DialContext(ctx, clientOptions(opts, conv))
	if err != nil {
		return nil, core.Errorf(core.CodeStoreFailed, "Temporal at %s does not answer: %w; look at the address, the namespace %q and whether the service is up", opts.Address, err, opts.Namespace)
	}
	return c, nil
}
