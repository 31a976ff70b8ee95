package temporal

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	workflowpb "go.temporal.io/api/workflow/v1"

	"github.com/casys-ai/pml/core"
)

// hasWork reports whether a runner would have something to do with the run.
func (st *state) hasWork() bool {
	switch {
	case st.Run.State.Final():
		return false
	case st.Run.State != core.RunWaiting:
		return true
	case st.Run.Abort != nil, st.Replanned:
		return true
	}
	return slices.ContainsFunc(st.Approvals, func(q *question) bool {
		return (q.State == core.ApprovalApproved || q.State == core.ApprovalDenied) && !q.Used
	})
}

// doer is whose run it is if there is something to do, and empty otherwise.
func (st *state) doer() string {
	if !st.hasWork() {
		return ""
	}
	return cmp.Or(st.Run.Runner, nobody)
}

// Orphans finds runs as store.Runners says. It asks the index of the service, which knows what
// was kept a moment ago: a run that has just changed may be missing, or one be there that
// somebody has taken meanwhile, which Claim refuses. Whoever looks looks again.
func (s *Store) Orphans(ctx context.Context, self string, limit int) ([]core.ID, error) {
	var living []string
	if err := s.query(ctx, s.name(haltID), queryRunners, "", &living); err != nil {
		return nil, err
	}
	s.doubt(ctx, living, self)
	living = slices.DeleteFunc(living, func(r string) bool { return r == self })
	q := s.indexed() + " AND " + todoName + " IS NOT NULL"
	if len(living) > 0 {
		q += fmt.Sprintf(" AND %s NOT IN ('%s')", todoName, strings.Join(living, "','"))
	}
	found, err := s.list(ctx, q)
	if err != nil {
		return nil, err
	}
	s.strays(found, self)
	slices.SortStableFunc(found, func(a, b *workflowpb.WorkflowExecutionInfo) int {
		return a.GetStartTime().AsTime().Compare(b.GetStartTime().AsTime())
	})
	ids := s.runIDs(found)
	if limit > 0 {
		ids = ids[:min(limit, len(ids))]
	}
	return ids, nil
}

// strays remembers the runs of others that are dead: they may be in the memory of a process that
// has ended with its runner, where Temporal would look for them first (Claim).
func (s *Store) strays(found []*workflowpb.WorkflowExecutionInfo, self string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.stray)
	for _, e := range found {
		if id, ok := s.runOf(e); ok && shown[string](e, todoName) != self {
			s.stray[id] = true
		}
	}
}

// isStray reports whether a run was found to be one, and takes that back.
func (s *Store) isStray(id core.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.stray[id]
	delete(s.stray, id)
	return was
}

// doubt looks at one of those who are said to live, each time at another one, and strikes it
// off if it does not: its workflow was ended by somebody's hand, and so has not said so.
func (s *Store) doubt(ctx context.Context, living []string, self string) {
	if len(living) == 0 {
		return
	}
	s.mu.Lock()
	s.looks++
	one := living[s.looks%len(living)]
	s.mu.Unlock()
	if one == self {
		return
	}
	if alive, err := s.Alive(ctx, one); err != nil || alive {
		return
	}
	if err := s.client.SignalWorkflow(ctx, s.name(haltID), "", signalLeft, one); err != nil {
		s.opts.Logger.Debug("cannot strike off a runner that has ended; the next look tries again", "runner", one, "error", err)
	}
}
