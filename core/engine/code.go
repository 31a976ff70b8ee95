package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/sandbox"
)

// codeProgram runs a script in a sandbox child.
type codeProgram struct {
	pool    *sandbox.Pool
	run     core.ID
	owner   string          // of the run
	created time.Time       // of the run
	input   json.RawMessage // of the run
	// results reads what the script has of earlier scripts of its agent, nil for nothing.
	results func(context.Context) (json.RawMessage, error)
	program core.Program
	limits  Limits
	session *sandbox.Session
	// led says, by delivery sequence number, when an outcome was delivered and
	// the layer of its call.
	led map[int64]led
	// lines counts the console lines since the start, told those of the run as
	// a whole: a replay does not tell them again.
	lines, told int
	// retried is when the run was last retried: sleeps that have not ended begin then.
	retried time.Time
	// planned holds the planned layers of call sites by line of the script.
	planned map[int][]core.PlanCall
}

type led struct {
	at    time.Time
	layer int
}

func newCodeProgram(pool *sandbox.Pool, run core.Run, p core.Program, limits Limits) *codeProgram {
	c := &codeProgram{pool: pool, run: run.ID, owner: run.Owner, created: run.CreatedAt, input: run.Options.Input, program: p, limits: limits, planned: map[int][]core.PlanCall{}}
	if p.Plan != nil {
		for _, pc := range p.Plan.Calls {
			c.planned[pc.Site.Line] = append(c.planned[pc.Site.Line], pc)
		}
	}
	return c
}

func (c *codeProgram) start(ctx context.Context) (turn, error) {
	c.close()
	c.lines = 0
	c.led = map[int64]led{0: {at: c.created, layer: -1}}
	var results json.RawMessage
	if c.results != nil {
		var err error
		if results, err = c.results(ctx); err != nil {
			return turn{}, err
		}
	}
	session, t, err := c.pool.Open(ctx, sandbox.Start{
		Script: c.program.Script, Source: c.program.Source, File: c.program.File,
		Input: orNull(c.input), Results: results, Seed: string(c.run), Now: c.created,
		Owner: c.owner, CPU: c.limits.CPU, ResultBytes: c.limits.ResultBytes, ToldBytes: c.program.ResultBytes,
	})
	if err != nil {
		return turn{}, err
	}
	c.session = session
	return c.turn(t), nil
}

func (c *codeProgram) deliver(ctx context.Context, list []delivery) (turn, error) {
	out := make([]sandbox.Delivery, len(list))
	for i, d := range list {
		id, err := strconv.Atoi(d.call.id[1:])
		if err != nil {
			return turn{}, core.Errorf(core.CodeReplay, "the journal names a call %q that no script makes", d.call.id)
		}
		c.led[d.seq] = led{at: d.at, layer: d.call.layer}
		out[i] = sandbox.Delivery{Seq: d.seq, CallID: id, Value: d.value, At: d.at}
		if d.outcome != core.OutcomeSuccess {
			out[i].Err = d.err
		}
	}
	t, err := c.session.Deliver(ctx, out)
	if err != nil {
		return turn{}, err
	}
	return c.turn(t), nil
}

func (c *codeProgram) rest() {
	if c.session != nil {
		c.session.Rest()
	}
}

func (c *codeProgram) close() {
	if c.session != nil {
		c.session.Close()
		c.session = nil
	}
}

func (c *codeProgram) turn(t sandbox.Turn) turn {
	out := turn{done: t.Done, result: t.Result, err: t.Err, unhandled: t.Unhandled}
	if err := core.CheckDepth("the result of the script", t.Result); err != nil && out.err == nil {
		out.result, out.err = nil, core.AsError(err)
	}
	for _, l := range t.Logs {
		if c.lines++; c.lines > c.told {
			c.told = c.lines
			out.logs = append(out.logs, l)
		}
	}
	for _, id := range t.Cancelled {
		out.cancelled = append(out.cancelled, callID(id))
	}
	for _, sc := range t.Calls {
		from := c.led[sc.After]
		is := issued{id: callID(sc.ID), layer: from.layer + 1, at: sc.At, after: sc.After}
		if sc.IsSleep {
			begun := from.at
			if c.retried.After(begun) {
				begun = c.retried
			}
			is.tool, is.due = core.SleepTool, begun.Add(sc.Sleep)
			is.args = fmt.Appendf(nil, `{"ms":%d}`, sc.Sleep.Milliseconds())
		} else {
			is.tool, is.args = sc.Server+":"+sc.Tool, sc.Args
			if reserved(is.tool) {
				is.reason, is.tool = noSuchTool(is.tool), "mcp."+is.tool
			}
			if pc := c.plannedAt(sc.Site); pc != nil {
				is.layer = max(is.layer, pc.Layer)
				if pc.Tool == is.tool {
					is.computed = pc.Computed
				}
			}
		}
		out.calls = append(out.calls, is)
	}
	return out
}

func callID(n int) string { return fmt.Sprintf("c%d", n) }

// plannedAt is the planned call whose site is nearest to a position on its line, nil when
// analysis knows none there.
func (c *codeProgram) plannedAt(site core.Position) (nearest *core.PlanCall) {
	best := 0
	for i, pc := range c.planned[site.Line] {
		d := pc.Site.Column - site.Column
		if d < 0 {
			d = -d
		}
		if nearest == nil || d < best {
			best, nearest = d, &c.planned[site.Line][i]
		}
	}
	return nearest
}

// maxResults bounds what one script gets of the results of earlier ones, in bytes.
const maxResults = 32 << 20

// earlierResults are the results that the program of the run names, whole, by handle: those of
// earlier scripts of its agent, which are kept with their runs.
func (a *actor) earlierResults(ctx context.Context) (json.RawMessage, error) {
	out, size := map[string]json.RawMessage{}, 0
	for handle, id := range a.program.Results {
		run, err := a.store.Run(ctx, id)
		if err != nil {
			return nil, err
		}
		if size += len(run.Result); size > maxResults {
			return nil, core.Errorf(core.CodeResultTooLarge, "the results that the script names are more than %d MiB together; name fewer of them in one script", maxResults>>20)
		}
		out[handle] = orNull(run.Result)
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return nil, core.Errorf(core.CodeInternal, "cannot encode the results of earlier scripts: %w", err)
	}
	return raw, nil
}
