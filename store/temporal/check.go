package temporal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/store"
)

// The states of a check.
const (
	checkOK   = "ok"
	checkWarn = "warn"
	checkFail = "fail"
)

// Check looks at all that pml needs of Temporal and of the blobs, and says what is wrong with it and which command
// helps. It opens no store and needs no other process; where there is an installation it says whether this process belongs to it. It
// writes a blob and starts a workflow, and takes both away. Where the server does not answer nothing else is looked at. A context that
// ends is an error: what did not come to an end is no finding.
func Check(ctx context.Context, opts Options) ([]api.Check, error) {
	out := check(ctx, opts)
	if ctx.Err() != nil {
		return nil, core.Errorf(core.CodeCancelled, "stopped before everything was looked at: %w", context.Cause(ctx))
	}
	return out, nil
}

func check(ctx context.Context, opts Options) []api.Check {
	s, err := newService(opts)
	if err != nil {
		return []api.Check{failed("temporal keys", err)}
	}
	if s.client, err = dial(ctx, opts, s.conv); err != nil {
		return []api.Check{failed("temporal", err), s.checkBlobs()}
	}
	defer s.client.Close()
	out := []api.Check{s.checkServer(ctx), s.checkDatabase(ctx)}
	namespace, there := s.checkNamespace(ctx)
	out = append(out, namespace...)
	if there {
		out = append(out, s.checkAttributes(ctx)...)
		out = append(out, s.checkClock(ctx), s.checkInstallation(ctx))
	}
	return append(out, s.checkBlobs())
}

// failed is the check of what does not work.
func failed(name string, err error) api.Check {
	e := core.AsError(err)
	return api.Check{Name: name, Status: checkFail, Detail: strings.ReplaceAll(e.Error(), "\n ", ";"), Next: e.Next}
}

// testedVersion is the version of Temporal's server that pml is tested with.
const testedVersion = "1.29.1"

// checkServer looks at what answers.
func (s *service) checkServer(ctx context.Context) api.Check {
	c := api.Check{Name: "temporal", Status: checkOK}
	info, err := s.client.WorkflowService().GetSystemInfo(ctx, &workflowservice.GetSystemInfoRequest{})
	if err != nil {
		return failed(c.Name, failure(stopped(ctx, err), ""))
	}
	c.Detail = fmt.Sprintf("%s is Temporal %s", s.opts.Address, core.Visible(info.GetServerVersion(), 60, false))
	if older(info.GetServerVersion(), testedVersion) {
		c.Status = checkWarn
		c.Detail += "; pml is tested with " + testedVersion + ", update the server"
	}
	return c
}

// older reports whether a version of the form 1.2.3 is an older minor one than another. Of one of another form nothing is known.
func older(version, than string) bool {
	var a, b [2]int
	for of, v := range map[*[2]int]string{&a: version, &b: than} {
		parts := strings.SplitN(v, ".", 3)
		for i := range of {
			var err error
			if len(parts) < 3 {
				return false
			}
			if of[i], err = strconv.Atoi(parts[i]); err != nil {
				return false
			}
		}
	}
	return a[0] < b[0] || a[0] == b[0] && a[1] < b[1]
}

// checkDatabase looks at where the server keeps everything. Temporal Cloud does not say.
func (s *service) checkDatabase(ctx context.Context) api.Check {
	c := api.Check{Name: "temporal database", Status: checkOK}
	info, err := s.client.WorkflowService().GetClusterInfo(ctx, &workflowservice.GetClusterInfoRequest{})
	if err != nil {
		c.Detail = "the server does not say which it has"
		return c
	}
	c.Detail = core.Visible(fmt.Sprintf("%s, and %s for the index", info.GetPersistenceStore(), info.GetVisibilityStore()), 120, false)
	if strings.Contains(info.GetPersistenceStore(), "sqlite") {
		c.Status = checkWarn
		c.Detail += "; SQLite is for development: use a server with PostgreSQL, MySQL or Cassandra"
	}
	return c
}

const (
	// leastRetention is that of the lock that keeps a run from being begun a second time by a process which
	// was stopped after it had taken the run's idempotency key: a workflow that has ended, and goes with the retention.
	leastRetention = store.KeyLife
	// wantedRetention is how long a person has for resetting a workflow that somebody has ended by hand; then the run is lost.
	wantedRetention = 7 * 24 * time.Hour
)

// checkNamespace looks at the namespace, and says whether it is there.
func (s *service) checkNamespace(ctx context.Context) (out []api.Check, there bool) {
	d, err := s.client.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: s.opts.Namespace})
	if _, missing := errors.AsType[*serviceerror.NamespaceNotFound](err); missing {
		return []api.Check{{
			Name: "temporal namespace", Status: checkFail, Detail: fmt.Sprintf("there is no namespace %q", s.opts.Namespace),
			Next: []string{"temporal", "operator", "namespace", "create", "--namespace", s.opts.Namespace, "--retention", hours(wantedRetention)},
		}}, false
	}
	if err != nil {
		return []api.Check{failed("temporal namespace", failure(stopped(ctx, err), ""))}, false
	}
	is := api.Check{Name: "temporal namespace", Status: checkOK, Detail: s.opts.Namespace}
	switch info := d.GetNamespaceInfo(); {
	case info.GetState() != enumspb.NAMESPACE_STATE_REGISTERED:
		is.Status, is.Detail = checkFail, fmt.Sprintf("the namespace %q is %s", s.opts.Namespace, info.GetState())
	case info.GetCapabilities() != nil && !info.GetCapabilities().GetSyncUpdate():
		is.Status, is.Detail = checkFail, fmt.Sprintf("the namespace %q takes no updates of workflows, which every step of a run is; set frontend.enableUpdateWorkflowExecution in the server's dynamic configuration", s.opts.Namespace)
	}
	return []api.Check{is, s.checkRetention(d.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration())}, true
}

func (s *service) checkRetention(is time.Duration) api.Check {
	c := api.Check{
		Name: "temporal retention", Detail: "workflows that have ended stay for " + hours(is),
		Next: []string{"temporal", "operator", "namespace", "update", "--namespace", s.opts.Namespace, "--retention", hours(wantedRetention)},
	}
	switch {
	case is < leastRetention:
		c.Status = checkFail
		c.Detail += fmt.Sprintf("; under %s a process that stood still for that long may begin a run for the second time", hours(leastRetention))
	case is < wantedRetention:
		c.Status = checkWarn
		c.Detail += "; that is how long a run can be had again whose workflow somebody has ended by hand: make it " + hours(wantedRetention)
	default:
		c.Status, c.Next = checkOK, nil
	}
	return c
}

// hours is a retention as Temporal's command takes it.
func hours(d time.Duration) string { return strconv.Itoa(int(d/time.Hour)) + "h" }

// checkAttributes looks at the search attributes.
func (s *service) checkAttributes(ctx context.Context) []api.Check {
	c := api.Check{Name: "temporal search attributes", Status: checkOK, Detail: fmt.Sprintf("all %d are there", len(attributes))}
	missing, wrong, err := unindexed(ctx, s.client, s.opts.Namespace)
	switch {
	case err != nil:
		return []api.Check{failed(c.Name, failure(stopped(ctx, err), ""))}
	case len(wrong) > 0:
		return []api.Check{failed(c.Name, errWrongKind(s.opts.Namespace, wrong))}
	case len(missing) > 0:
		c.Status, c.Next = checkFail, byHand(s.opts.Namespace, missing)
		c.Detail = fmt.Sprintf("%d of %d are missing, by which pml finds runs; one process adds them, once", len(missing), len(attributes))
	}
	return []api.Check{c}
}

// skewLimit is by how much a clock may be wrong before somebody sees it: what expires does so by the clock of whoever has
// changed the run last.
const skewLimit = 5 * time.Second

// checkClock compares this machine's clock with the server's, which a workflow tells that is started and taken away.
func (s *service) checkClock(ctx context.Context) api.Check {
	c := api.Check{Name: "temporal clock", Status: checkOK}
	id := s.name("check/" + string(s.opts.NewID()))
	sent := s.opts.Clock.Now()
	// If this process dies right now a worker of the installation ends it, or the timeout does.
	run, err := s.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: s.opts.Name, StartDelay: time.Minute, WorkflowExecutionTimeout: 10 * time.Minute}, voidType)
	heard := s.opts.Clock.Now()
	if err != nil {
		return failed(c.Name, failure(stopped(ctx, err), ""))
	}
	d, err := s.client.DescribeWorkflowExecution(ctx, id, run.GetRunID())
	if err == nil {
		err = s.client.TerminateWorkflow(ctx, id, run.GetRunID(), "pml has looked at the clock")
	}
	if err != nil {
		return failed(c.Name, failure(stopped(ctx, err), ""))
	}
	skew := apart(sent, d.GetWorkflowExecutionInfo().GetStartTime().AsTime(), heard)
	c.Detail = fmt.Sprintf("at most %s from the server's", max(skew, heard.Sub(sent)).Round(time.Millisecond))
	if skew > skewLimit {
		c.Status = checkWarn
		c.Detail = fmt.Sprintf("%s from the server's: approvals expire too soon or too late; let both machines take their time from the network", skew.Round(time.Second))
	}
	return c
}

// apart is by how much a time that somebody else has told at least lies outside of the time in which it was told.
func apart(sent, told, heard time.Time) time.Duration { return max(0, sent.Sub(told), told.Sub(heard)) }

// checkInstallation looks whether this process has the keys and the blobs of the installation.
func (s *service) checkInstallation(ctx context.Context) api.Check {
	c := api.Check{Name: "temporal installation", Status: checkOK, Detail: s.opts.Name + " is not begun yet"}
	p, err := s.memo(ctx)
	if err == nil && p != nil {
		c.Detail = s.opts.Name + " has these blobs, and all is in clear: there are no keys"
		if s.ring != nil {
			c.Detail = fmt.Sprintf("%s has these blobs and keys; it writes with the key %s", s.opts.Name, s.opts.Keys[0].ID)
		}
		err = s.mustBelong(ctx)
	}
	if err != nil {
		return failed(c.Name, err)
	}
	return c
}

// checkBlobs puts a blob, reads it and takes it away.
func (s *service) checkBlobs() api.Check {
	of, probe := "check-"+string(s.opts.NewID()), bytes.Repeat([]byte("probe"), inline/4)
	digest, err := s.opts.Blobs.Put(of, probe)
	var got []byte
	if err == nil {
		got, err = s.opts.Blobs.Get(of, digest)
	}
	if err == nil && !bytes.Equal(got, probe) {
		err = core.Errorf(core.CodeStoreFailed, "a blob is another one when it is read")
	}
	if err = errors.Join(err, s.opts.Blobs.Remove(of)); err != nil {
		return failed("temporal blobs", err)
	}
	return api.Check{Name: "temporal blobs", Status: checkOK, Detail: "can be written and read"}
}
