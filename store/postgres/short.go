package postgres

import (
	"context"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// prepared is a step with everything encoded, so that nothing of that happens
// while others wait.
type prepared struct {
	store.Step

	mark    string // by which the step is known in its run's row
	before  string // the mark of the step before it, for the short way
	size    int    // about how many bytes are sent
	short   bool   // it can go the short way
	header  []byte
	entry   entry
	program []byte
	uses    uses
}

// checkStep refuses what no state of the store could accept.
func checkStep(step store.Step) error {
	ids := []core.ID{step.Run.ID}
	for _, a := range step.Open {
		ids = append(ids, a.ID)
		if a.State != "" && a.State != core.ApprovalOpen {
			return core.Errorf(core.CodeInternal, "the new approval %s is %s instead of open", a.ID.Short(), a.State).WithRun(step.Run.ID)
		}
	}
	for _, id := range ids {
		if !validID(id) {
			return core.Errorf(core.CodeInvalidArguments, "%q cannot be an id: letters, digits and dashes, at most 64", id)
		}
	}
	for i, r := range step.Records {
		if r.Seq != step.Records[0].Seq+int64(i) {
			return core.Errorf(core.CodeInternal, "the records of the run %s do not follow one another", step.Run.ID.Short()).WithRun(step.Run.ID)
		}
	}
	return nil
}

func (s *Store) prepare(step store.Step, mark string) (*prepared, error) {
	p := &prepared{Step: step, mark: mark}
	p.short = len(step.Open)+len(step.Supersede)+len(step.Audit) == 0
	if step.Create {
		p.short = p.short && len(step.Used) == 0 && step.Run.IdempotencyKey == "" && step.Run.Abort == nil && step.Checkpoint == nil
	} else {
		p.short = p.short && step.Program == nil
	}
	var err error
	if p.short && len(step.Used) > 0 {
		if p.short, err = s.prepareUses(p); err != nil {
			return nil, err
		}
	}
	if p.header, err = header(step.Run); err != nil {
		return nil, err
	}
	if p.entry, err = entryOf(step); err != nil {
		return nil, err
	}
	if step.Program != nil {
		if p.program, err = encode(step.Program); err != nil {
			return nil, err
		}
	}
	p.size = p.measure()
	return p, nil
}

// entryOf encodes what a step adds to its run. The records of a new one are
// numbered from 1.
func entryOf(step store.Step) (e entry, err error) {
	e = entry{run: step.Run.ID, owner: step.Run.Owner}
	for _, r := range step.Records {
		if err := e.addRecord(r); err != nil {
			return e, err
		}
	}
	switch n := len(step.Records); {
	case step.Create:
		e.record = int64(n)
	case n > 0:
		e.record = step.Records[n-1].Seq
	}
	for _, event := range step.Events {
		if err := e.addEvent(event); err != nil {
			return e, err
		}
	}
	if step.Checkpoint != nil {
		e.checkpoint, err = encode(step.Checkpoint)
	}
	return e, err
}

func (p *prepared) measure() int {
	n := len(p.header) + len(p.program) + len(p.Run.Result) + len(p.Run.Options.Input) + p.entry.size()
	for _, a := range p.Open {
		n += len(a.Context)
	}
	return n
}

// The parameters of commitSQL: the columns of new runs and those of changed ones.
type (
	creates struct {
		id, step, owner, workspace   []string
		remote                       []bool
		state                        []string
		created                      []int64
		expires                      []*int64
		runner                       []string
		epoch                        []int64
		version, layers              []int32
		seq                          []int64
		data, input, result, program [][]byte
		intent                       []string
	}
	updates struct {
		id, before, step, owner, state []string
		expires                        []*int64
		runner                         []string
		epoch                          []int64
		version, layers                []int32
		first, count                   []int64
		data, result                   [][]byte
	}
)

func (c *creates) add(p *prepared) {
	r := p.Run
	c.id, c.step = append(c.id, string(r.ID)), append(c.step, p.mark)
	c.owner, c.workspace = append(c.owner, clean(r.Owner)), append(c.workspace, clean(r.Workspace))
	c.remote, c.state = append(c.remote, r.Remote), append(c.state, string(r.State))
	c.created, c.expires = append(c.created, r.CreatedAt.UnixNano()), append(c.expires, nanos(r.ExpiresAt))
	c.runner, c.epoch = append(c.runner, r.Runner), append(c.epoch, r.Epoch)
	c.version, c.layers = append(c.version, int32(r.DAGVersion)), append(c.layers, int32(r.TotalLayers))
	c.seq, c.data = append(c.seq, int64(len(p.Records))), append(c.data, p.header)
	c.input, c.result = append(c.input, value(r.Options.Input)), append(c.result, value(r.Result))
	c.program, c.intent = append(c.program, p.program), append(c.intent, clean(r.Intent))
}

func (u *updates) add(p *prepared) {
	r := p.Run
	u.id, u.before, u.step = append(u.id, string(r.ID)), append(u.before, p.before), append(u.step, p.mark)
	u.owner, u.state = append(u.owner, clean(r.Owner)), append(u.state, string(r.State))
	u.expires, u.runner, u.epoch = append(u.expires, nanos(r.ExpiresAt)), append(u.runner, r.Runner), append(u.epoch, r.Epoch)
	u.version, u.layers = append(u.version, int32(r.DAGVersion)), append(u.layers, int32(r.TotalLayers))
	first := int64(0)
	if len(p.Records) > 0 {
		first = p.Records[0].Seq
	}
	u.first, u.count = append(u.first, first), append(u.count, int64(len(p.Records)))
	u.data, u.result = append(u.data, p.header), append(u.result, value(r.Result))
}

// send commits steps with one statement. It returns the runs whose step was
// kept, and whether something has expired that is not recorded yet.
func (s *Store) send(ctx context.Context, batch []*op) (kept map[string]bool, due bool, err error) {
	if len(batch) == 1 && !batch[0].Create {
		one, due, err := s.sendOne(ctx, batch[0])
		if one {
			kept = map[string]bool{string(batch[0].Run.ID): true}
		}
		return kept, due, err
	}
	var n creates
	var u updates
	var e entries
	for _, o := range batch {
		if o.Create {
			n.add(o.prepared)
		} else {
			u.add(o.prepared)
		}
		e.add(&o.entry)
	}
	if err := s.fault.before(); err != nil {
		return nil, false, err
	}
	var ids []string
	var notified *string
	args := []any{s.origin, s.now().UnixNano(), e.id, e.owner, e.record, e.records, e.count, e.types, e.events, e.checks}
	sql := commitChanges
	if len(n.id) > 0 {
		sql = commitCreates
		args = append(args, n.id, n.step, n.owner, n.workspace, n.remote, n.state, n.created, n.expires, n.runner, n.epoch,
			n.version, n.layers, n.seq, n.data, n.input, n.result, n.program, n.intent)
	}
	if len(u.id) > 0 {
		if len(n.id) > 0 {
			sql = commitBoth
		}
		args = append(args, u.id, u.before, u.step, u.owner, u.state, u.expires, u.runner, u.epoch, u.version, u.layers,
			u.first, u.count, u.data, u.result)
	}
	err = s.pool.QueryRow(ctx, sql, args...).Scan(&ids, &due, &notified)
	if err == nil && len(ids) > 0 {
		err = s.fault.after()
	}
	if err != nil {
		return nil, false, err
	}
	kept = make(map[string]bool, len(ids))
	for _, id := range ids {
		kept[id] = true
	}
	return kept, due, nil
}
