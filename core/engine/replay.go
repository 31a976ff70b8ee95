package engine

import "github.com/casys-ai/pml/core"

// recall tells a call what is journaled of it; settled says that it has its
// outcome.
func (j *journal) recall(c *call) (settled bool, err error) {
	c.failures = j.failures[c.id]
	i, settled := j.byCall[c.id]
	if !settled {
		if err := c.recall(j.passed[c.id]); err != nil {
			return false, err
		}
		if r, begun := j.begun[c.id]; begun {
			c.attempt = r.Attempt
			c.share = r.Agent
			if r.Kind == core.RecordStarted {
				c.started, c.before, c.why = true, r.StartedAt, r.Error
				if c.before.IsZero() {
					c.before = r.At
				}
				return false, matches(r, c)
			}
		}
		c.parkedAt = j.parked[c.id].At
		return false, nil
	}
	r := j.settled[i]
	if err := matches(r, c); err != nil {
		return false, err
	}
	// The layer is the journaled one: it is never computed again.
	c.layer, c.attempt, c.seq = r.Layer, r.Attempt, r.Seq
	c.outcome, c.value, c.err = r.Outcome, r.Result, r.Error
	c.startAt, c.settleAt, c.share = r.StartedAt, r.At, r.Agent
	return true, nil
}

// matches refuses a call that is not the one in the journal.
func matches(r core.Record, c *call) error {
	if r.Tool == c.tool && (r.ArgsDigest == c.digest || r.ArgsDigest == "") {
		return nil
	}
	return core.Errorf(core.CodeReplay, "replay went another way: call %s was %s with arguments %s, now it is %s with arguments %s; the journal is kept, nothing was called",
		c.id, r.Tool, shown(r.Args), c.tool, shown(c.args))
}

func shown(args []byte) string { return core.Visible(string(args), 200, false) }
