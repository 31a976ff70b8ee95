package bolt

import (
	"encoding/binary"
	"encoding/json"
	"slices"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// A row of the events is one event, or several that were committed together and
// follow one another: many small rows cost more than what is in them. Its key is
// the number of its last event, so that the row that holds a number is the first
// one at or after it. Before the events stands the id of their run: a reader can
// pass them over without decoding.
//
//	one:      length of the id, id, event
//	several:  packedMark, length of the id, id, then length and bytes of each event
//
// An id is never as long as packedMark says.
const (
	packedMark = 0xff
	// packedMost bounds what a reader of one event decodes, and a row's size.
	packedMost = 8
)

// eventSize is room for most events.
const eventSize = 256

// addEvents numbers events and writes them; the row remembers between which
// numbers a run's events lie, so that nobody has to read the others'.
func (t *txn) addEvents(r *runRow, events ...core.Event) error {
	if len(events) == 0 {
		return nil
	}
	b := t.bucket(bucketEvents)
	b.FillPercent = 0.95 // keys only grow
	seq := int64(b.Sequence())
	if r.FirstEvent == 0 {
		r.FirstEvent = seq + 1
	}
	for list := range slices.Chunk(events, packedMost) {
		row, err := eventRow(r, list, seq)
		if err != nil {
			return err
		}
		seq += int64(len(list))
		if err := t.put(b, seqKey(seq), row); err != nil {
			return err
		}
	}
	r.LastEvent = seq
	return b.SetSequence(uint64(seq))
}

// eventRow encodes events of a run, numbered from the one after a number.
func eventRow(r *runRow, events []core.Event, seq int64) ([]byte, error) {
	row := make([]byte, 0, len(r.ID)+8+len(events)*(eventSize+4))
	if len(events) > 1 {
		row = append(row, packedMark)
	}
	row = append(append(row, byte(len(r.ID))), r.ID...)
	for i := range events {
		e := events[i]
		seq++
		e.Seq, e.RunID, e.Owner = seq, r.ID, r.Owner
		raw, err := json.Marshal(&e)
		if err != nil {
			return nil, core.Errorf(core.CodeInvalidArguments, "the event %s of the run %s cannot be stored: %w", e.Type, r.ID.Short(), err)
		}
		if len(events) > 1 {
			row = binary.AppendUvarint(row, uint64(len(raw)))
		}
		row = append(row, raw...)
	}
	return row, nil
}

// cutEvents takes a row of events apart.
func cutEvents(v []byte) (run core.ID, events [][]byte, err error) {
	packed := len(v) > 0 && v[0] == packedMark
	if packed {
		v = v[1:]
	}
	if len(v) == 0 || len(v) < 1+int(v[0]) {
		return "", nil, errRow
	}
	n := 1 + int(v[0])
	run, v = core.ID(v[1:n]), v[n:]
	if !packed {
		return run, [][]byte{v}, nil
	}
	for len(v) > 0 {
		var raw []byte
		if raw, v, err = cutBytes(v); err != nil {
			return "", nil, err
		}
		events = append(events, raw)
	}
	return run, events, nil
}

// addMatching appends the events of a row that a filter selects.
func addMatching(out []core.Event, row []byte, f store.EventFilter) ([]core.Event, error) {
	run, list, err := cutEvents(row)
	if err != nil || f.RunID != "" && run != f.RunID {
		return out, err
	}
	for _, raw := range list {
		var e core.Event
		if err := unmarshal(raw, &e); err != nil {
			return out, err
		}
		if e.Seq > f.After && (f.Owner == "" || e.Owner == f.Owner) && (len(f.Types) == 0 || slices.Contains(f.Types, e.Type)) {
			out = append(out, e)
		}
	}
	return out, nil
}
