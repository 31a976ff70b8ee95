package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

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
	past    [][]byte // checkpoints of a copy
}

// prepare encodes a step and says whether it can go the short way (commitSQL), which
// many steps share: it writes a run's header, journal, events and checkpoint, and its
// only check is that of the run's own row. A step that touches approvals, the audit
// log or an idempotency key reads and locks rows of other tables and goes the long way
// (step_rules.go), as does a replan and a run that is copied in.
func prepare(step store.Step, mark string) (*prepared, error) {
	p := &prepared{Step: step, mark: mark}
	p.short = len(step.Open)+len(step.Supersede)+len(step.Undecided)+len(step.Relies)+len(step.Audit)+len(step.Used) == 0 && step.Past == nil && step.Given == nil && step.Run.Halted == nil
	if step.Create {
		p.short = p.short && step.Run.IdempotencyKey == "" && step.Run.Abort == nil && step.Checkpoint == nil
	} else {
		p.short = p.short && step.Program == nil
	}
	var err error
	if p.header, err = header(step.Run); err != nil {
		return nil, err
	}
	if p.entry, err = entryOf(step); err != nil {
		return nil, err
	}
	if step.Program != nil {
		if p.program, err = store.Encode(step.Program); err != nil {
			return nil, err
		}
	}
	if step.Past != nil {
		for _, c := range step.Past.Checkpoints {
			raw, err := store.Encode(&c)
			if err != nil {
				return nil, err
			}
			p.past = append(p.past, raw)
		}
	}
	p.size = p.measure()
	return p, nil
}

// fresh are the approvals that the step adds: open ones, and the settled ones of a
// copy.
func (p *prepared) fresh() []core.Approval {
	if p.Past == nil {
		return p.Open
	}
	return slices.Concat(p.Open, p.Past.Approvals)
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
		e.checkpoint, err = store.Encode(step.Checkpoint)
	}
	return e, err
}

// measure is about what the step weighs on the connection: the queue bounds the bytes
// of a batch by it, and the time that it waits for an answer.
func (p *prepared) measure() int {
	n := len(p.header) + len(p.program) + len(p.Run.Result) + len(p.Run.Options.Input) + p.entry.size()
	for _, a := range p.fresh() {
		n += len(a.Context)
	}
	return n
}

// The columns of new runs and those of changed ones, as commitSQL names them. Each is
// an array that the statement unnests into rows, so that a batch of any size is one
// statement with the same parameters, which PostgreSQL has planned already. The n-th
// elements of all arrays are one run: add appends to each, or the rows would shift.
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
		begins                         []bool
	}
)

// add appends a new run. clean takes zero bytes out of texts, which PostgreSQL does not
// store; times are nanoseconds since 1970, as everywhere in its tables.
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

// add appends a changed run. before is the step that the runner believes to be the
// newest: the statement changes no row that has another one, which is how a runner
// that another process has fenced off finds out.
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
	u.begins = append(u.begins, p.Begins())
}

func (c *creates) name(args pgx.NamedArgs) {
	args["new_id"], args["new_step"], args["new_owner"] = c.id, c.step, c.owner
	args["new_workspace"], args["new_remote"], args["new_state"] = c.workspace, c.remote, c.state
	args["new_created"], args["new_expires"], args["new_runner"] = c.created, c.expires, c.runner
	args["new_epoch"], args["new_version"], args["new_layers"] = c.epoch, c.version, c.layers
	args["new_seq"], args["new_data"], args["new_input"] = c.seq, c.data, c.input
	args["new_result"], args["new_program"], args["new_intent"] = c.result, c.program, c.intent
}

func (u *updates) name(args pgx.NamedArgs) {
	args["set_id"], args["set_before"], args["set_step"] = u.id, u.before, u.step
	args["set_owner"], args["set_state"], args["set_expires"] = u.owner, u.state, u.expires
	args["set_runner"], args["set_epoch"], args["set_version"] = u.runner, u.epoch, u.version
	args["set_layers"], args["set_first"], args["set_count"] = u.layers, u.first, u.count
	args["set_data"], args["set_result"], args["set_begins"] = u.data, u.result, u.begins
}

// send commits steps with one statement. It returns the runs whose step was kept, and
// whether something has expired that is not recorded yet. A step that is not among
// those kept was refused by the statement's conditions without a reason; the caller
// commits it again the long way, whose rules say why. An error leaves open whether
// the statement was committed: the marks of the steps tell, when they are tried again.
func (s *Store) send(ctx context.Context, batch []*op) (kept map[string]bool, due bool, err error) {
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
	args := pgx.NamedArgs{"origin": s.origin, "now": s.now().UnixNano()}
	e.name(args)
	sql := commitBoth
	switch {
	case len(u.id) == 0:
		sql = commitCreates
	case len(n.id) == 0:
		sql = commitChanges
	}
	n.name(args)
	u.name(args)
	err = s.pool.QueryRow(ctx, sql, args).Scan(&ids, &due, &notified)
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
