package temporal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/casys-ai/pml/core"
)

// Prepare makes of a namespace what pml needs: it begins the namespace where there is none, with a week of retention, and adds the
// search attributes by which runs are found and listed where they are missing. One process does that, once, before any opens the
// store: of several that add an attribute at the same time each may get a column of its own, and
// Temporal then finds some runs by the one and some by the other. Where pml may not do it, as
// in Temporal Cloud, whoever owns the namespace does.
func Prepare(ctx context.Context, opts Options) error {
	c, err := dial(ctx, opts, newConverters(nil, formatNow, nil))
	if err != nil {
		return err
	}
	defer c.Close()
	if err := beginNamespace(ctx, c, opts.Namespace); err != nil {
		return err
	}
	missing, wrong, err := unindexed(ctx, c, opts.Namespace)
	switch {
	case err != nil:
		return failure(stopped(ctx, err), "")
	case len(wrong) > 0:
		return errWrongKind(opts.Namespace, wrong)
	case len(missing) == 0:
		return nil
	}
	_, err = c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{Namespace: opts.Namespace, SearchAttributes: missing})
	if err != nil {
		return core.Errorf(core.CodeStoreFailed, "cannot add search attributes to the namespace %q: %w; whoever owns it adds them: %s", opts.Namespace, err, strings.Join(byHand(opts.Namespace, missing), " "))
	}
	return nil
}

// namespacePatience is how long all parts of Temporal need to learn of a namespace.
const namespacePatience = time.Minute

// beginNamespace begins a namespace where there is none, and waits until it can be used.
func beginNamespace(ctx context.Context, c client.Client, name string) error {
	_, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: name})
	if _, missing := errors.AsType[*serviceerror.NamespaceNotFound](err); !missing {
		return failure(stopped(ctx, err), "")
	}
	_, err = c.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
		Namespace: name, Description: "runs of pml", WorkflowExecutionRetentionPeriod: durationpb.New(wantedRetention),
	})
	if _, begun := errors.AsType[*serviceerror.NamespaceAlreadyExists](err); err != nil && !begun {
		return core.Errorf(core.CodeStoreFailed, "there is no namespace %q, and it cannot be begun: %w; whoever may begins it: temporal operator namespace create --namespace %s --retention %s", name, err, name, hours(wantedRetention))
	}
	ctx, cancel := context.WithTimeout(ctx, namespacePatience)
	defer cancel()
	for again := time.NewTicker(200 * time.Millisecond); ; {
		_, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Namespace: name, PageSize: 1})
		if _, missing := errors.AsType[*serviceerror.NamespaceNotFound](err); !missing {
			again.Stop()
			return failure(stopped(ctx, err), "")
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return failure(ctx.Err(), "")
		}
	}
}

// byHand is how search attributes are added without pml.
func byHand(namespace string, missing map[string]enumspb.IndexedValueType) []string {
	command := []string{"temporal", "operator", "search-attribute", "create", "--namespace", namespace}
	for _, a := range attributes {
		if _, ok := missing[a.name]; ok {
			command = append(command, "--name", a.name, "--type", a.kind.String())
		}
	}
	return command
}

// unindexed are the search attributes that a namespace lacks, and the names of those that are of another type than pml's.
func unindexed(ctx context.Context, c client.Client, namespace string) (missing map[string]enumspb.IndexedValueType, wrong []string, err error) {
	l, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return nil, nil, err
	}
	missing = map[string]enumspb.IndexedValueType{}
	for _, a := range attributes {
		switch kind, ok := l.GetCustomAttributes()[a.name]; {
		case !ok:
			missing[a.name] = a.kind
		case kind != a.kind:
			wrong = append(wrong, fmt.Sprintf("%s is %s and must be %s", a.name, kind, a.kind))
		}
	}
	slices.Sort(wrong)
	return missing, wrong, nil
}

// errWrongKind is the error of search attributes that somebody has added with other types.
func errWrongKind(namespace string, wrong []string) error {
	return core.Errorf(core.CodeStoreFailed, "search attributes of the namespace %q have types of something else: %s; use another namespace", namespace, strings.Join(wrong, ", "))
}

// mustBeIndexed is the error of a namespace that nobody has prepared.
func mustBeIndexed(ctx context.Context, c client.Client, namespace string) error {
	missing, wrong, err := unindexed(ctx, c, namespace)
	switch {
	case err != nil:
		return failure(stopped(ctx, err), "")
	case len(wrong) > 0:
		return errWrongKind(namespace, wrong)
	case len(missing) > 0:
		return core.Errorf(core.CodeStoreFailed, "the namespace %q has not all search attributes by which pml finds runs; add them once: %s", namespace, strings.Join(byHand(namespace, missing), " "))
	}
	return nil
}

func clientOptions(opts Options, conv converters) client.Options {
	o := client.Options{HostPort: opts.Address, Namespace: opts.Namespace, MetricsHandler: opts.Metrics, DataConverter: conv.data, FailureConverter: conv.failures}
	o.ConnectionOptions.TLS = opts.TLS
	if opts.APIKey != nil {
		o.Credentials = client.NewAPIKeyDynamicCredentials(opts.APIKey)
	}
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
