package postgres

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// entry is what a step adds to a run: a row of the table steps. One row for all
// records and one for all events costs the database a fraction of what a row for
// each would.
type entry struct {
	run        core.ID
	owner      string
	record     int64    // the number of the last record
	records    [][]byte // four parts for each: data, arguments, what was sent, result
	events     [][]byte
	types      []string
	checkpoint []byte
}

// addRecord encodes a record. Its number comes from its place; its values are
// kept as they are.
func (e *entry) addRecord(r core.Record) error {
	values := [][]byte{nil, r.Args, r.Sent, r.Result}
	r.Args, r.Sent, r.Result = nil, nil, nil
	var err error
	values[0], err = store.Encode(&r)
	e.records = append(e.records, values...)
	return err
}

// addEvent encodes an event. Number, run and owner are columns.
func (e *entry) addEvent(event core.Event) error {
	event.Seq, event.RunID, event.Owner = 0, "", ""
	raw, err := store.Encode(&event)
	if err != nil {
		return core.Errorf(core.CodeInvalidArguments, "the event %s of the run %s cannot be stored: %w", event.Type, e.run.Short(), err).WithRun(e.run)
	}
	e.events = append(e.events, raw)
	if t := string(event.Type); !slices.Contains(e.types, t) {
		e.types = append(e.types, t)
	}
	return nil
}

// size is about how many bytes are sent.
func (e *entry) size() int {
	n := len(e.checkpoint)
	for _, part := range e.records {
		n += len(part)
	}
	for _, part := range e.events {
		n += len(part)
	}
	return n
}

// readRecords unpacks the records of a row, the last of which has this number.
func readRecords(raw []byte, last int64) ([]core.Record, error) {
	parts, err := unpack(raw)
	if err == nil && len(parts)%4 != 0 {
		err = errUnpack
	}
	if err != nil {
		return nil, err
	}
	out := make([]core.Record, len(parts)/4)
	for i := range out {
		r, of := &out[i], parts[4*i:]
		if err := decode(of[0], r); err != nil {
			return nil, err
		}
		r.Args, r.Sent, r.Result = of[1], of[2], of[3]
		r.Seq = last - int64(len(out)-1-i)
	}
	return out, nil
}

// readEvents unpacks the events of a row, the last of which has this number.
func readEvents(raw []byte, last int64, run core.ID, owner string) ([]core.Event, error) {
	parts, err := unpack(raw)
	if err != nil {
		return nil, err
	}
	out := make([]core.Event, len(parts))
	for i := range out {
		if err := decode(parts[i], &out[i]); err != nil {
			return nil, err
		}
		out[i].Seq, out[i].RunID, out[i].Owner = last-int64(len(out)-1-i), run, owner
	}
	return out, nil
}

// pack puts parts into one value, each after its length; nil when there are none.
func pack(parts [][]byte) []byte {
	if len(parts) == 0 {
		return nil
	}
	n := 0
	for _, p := range parts {
		n += len(p) + binary.MaxVarintLen32
	}
	out := make([]byte, 0, n)
	for _, p := range parts {
		out = append(binary.AppendUvarint(out, uint64(len(p))), p...)
	}
	return out
}

var errUnpack = core.Errorf(core.CodeStoreFailed, "a row of the database cannot be read: its parts do not fit; restore it from a backup; nothing was changed")

// unpack takes apart what pack has put together. An empty part is nil.
func unpack(raw []byte) ([][]byte, error) {
	var out [][]byte
	for len(raw) > 0 {
		n, width := binary.Uvarint(raw)
		if width <= 0 || n > uint64(len(raw)-width) {
			return nil, errUnpack
		}
		var part []byte
		if end := width + int(n); n > 0 { //nolint:gosec // at most len(raw)
			part = raw[width:end:end]
		}
		out, raw = append(out, part), raw[width+len(part):]
	}
	return out, nil
}

// entries are rows of the table steps on their way, a column each.
type entries struct {
	id, owner               []string
	record                  []int64
	records, events, checks [][]byte
	count                   []int32 // how many events a row has
	types                   []string
}

func (c *entries) add(e *entry) {
	c.id, c.owner, c.record = append(c.id, string(e.run)), append(c.owner, clean(e.owner)), append(c.record, e.record)
	c.count = append(c.count, int32(len(e.events))) //nolint:gosec // bounded by the size of a message
	c.types, c.events = append(c.types, typesOf(e.types)), append(c.events, pack(e.events))
	c.records, c.checks = append(c.records, pack(e.records)), append(c.checks, e.checkpoint)
}

// name adds the columns to the arguments of a statement, as entriesSQL and addSQL name them.
func (c *entries) name(args pgx.NamedArgs) {
	args["entry_id"], args["entry_owner"], args["entry_record"], args["entry_count"] = c.id, c.owner, c.record, c.count
	args["entry_records"], args["entry_types"], args["entry_events"], args["entry_checkpoint"] = c.records, c.types, c.events, c.checks
}

// entriesSQL numbers events and adds rows, in the order given; @entry_upto is how
// many events the rows up to each one have.
const entriesSQL = `WITH c AS (UPDATE counters SET value = value + @entry_total WHERE name = 'events' RETURNING value - @entry_total AS last)
	INSERT INTO steps (workflow_id, owner, record, records, event, types, events, checkpoint)
	SELECT s.id, s.owner, s.record, s.records, c.last + s.upto, s.types, s.events, s.checkpoint
	FROM c, unnest(@entry_id::text[], @entry_owner::text[], @entry_record::bigint[], @entry_records::bytea[], @entry_upto::bigint[], @entry_types::text[], @entry_events::bytea[], @entry_checkpoint::bytea[])
		AS s(id, owner, record, records, upto, types, events, checkpoint)`

// queue sends the rows as a statement of their own.
func (c *entries) queue(b *pgx.Batch) {
	if len(c.id) == 0 {
		return
	}
	total, upto := int64(0), make([]int64, len(c.count))
	for i, n := range c.count {
		total += int64(n)
		upto[i] = total
	}
	args := pgx.NamedArgs{"entry_upto": upto, "entry_total": total}
	c.name(args)
	b.Queue(entriesSQL, args)
}

// typesOf is what the column types holds for some types.
func typesOf(types []string) string {
	if len(types) == 0 {
		return ""
	}
	return "," + clean(strings.Join(types, ",")) + ","
}

// typesLike are patterns for rows that may hold an event of these types.
func typesLike(types []core.EventType) []string {
	out := make([]string, len(types))
	for i, t := range types {
		out[i] = "%," + strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(clean(string(t))) + ",%"
	}
	return out
}
