package temporal

import (
	"context"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/casys-ai/pml/core"
)

// Prepare adds to a namespace what pml needs there and is missing: the search attribute by
// which runs of dead runners are found. One process does that, once, before any opens the
// store: of two that add it at the same time each may get a column of its own, and Temporal
// then finds some runs by the one and some by the other. Where pml may not add it, as in
// Temporal Cloud, whoever owns the namespace does.
func Prepare(ctx context.Context, opts Options) error {
	c, err := dial(ctx, opts)
	if err != nil {
		return err
	}
	defer c.Close()
	there, err := indexed(ctx, c, opts.Namespace)
	if err != nil || there {
		return failure(err, "")
	}
	_, err = c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
		Namespace: opts.Namespace, SearchAttributes: map[string]enumspb.IndexedValueType{todoName: enumspb.INDEXED_VALUE_TYPE_KEYWORD},
	})
	if err != nil {
		return core.Errorf(core.CodeStoreFailed, "cannot add the search attribute %s to the namespace %q: %w; whoever owns it adds it: %s", todoName, opts.Namespace, err, byHand)
	}
	return nil
}

// byHand is how the search attribute is added without pml.
const byHand = "temporal operator search-attribute create --name " + todoName + " --type Keyword"

// indexed reports whether a namespace has the search attribute.
func indexed(ctx context.Context, c client.Client, namespace string) (bool, error) {
	l, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	_, there := l.GetCustomAttributes()[todoName]
	return there, err
}

// mustBeIndexed is the error of a namespace that nobody has prepared.
func mustBeIndexed(ctx context.Context, c client.Client, namespace string) error {
	there, err := indexed(ctx, c, namespace)
	if err == nil && !there {
		return core.Errorf(core.CodeStoreFailed, "the namespace %q has no search attribute %s of type Keyword, by which pml finds runs; add it once: %s", namespace, todoName, byHand)
	}
	return failure(err, "")
}

func dial(ctx context.Context, opts Options) (client.Client, error) {
	o := client.Options{HostPort: opts.Address, Namespace: opts.Namespace}
	if opts.Logger != nil {
		o.Logger = sdklog.NewStructuredLogger(opts.Logger)
	}
	c, err := client.DialContext(ctx, o)
	if err != nil {
		return nil, core.Errorf(core.CodeStoreFailed, "Temporal at %s does not answer: %w; look at the address, the namespace %q and whether the service is up", opts.Address, err, opts.Namespace)
	}
	return c, nil
}
