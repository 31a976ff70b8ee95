package core

import (
	"encoding/json"
	"math"
	"strconv"
	"time"
	"unicode/utf8"
)

// Stores encode records, events and headers with every commit. AppendJSON of
// these types writes what encoding/json would, byte by byte, without reflection
// and without a buffer of its own. What is rare (errors, raw values, text that
// needs escapes) is left to encoding/json.

// object appends the members of a JSON object. The first error stays.
type object struct {
	b   []byte
	err error
	any bool // there is a member before the next
}

func newObject(b []byte) object { return object{b: append(b, '{')} }

func (o *object) end() ([]byte, error) {
	if o.err != nil {
		return nil, o.err
	}
	return append(o.b, '}'), nil
}

// key begins a member. Names need no escapes.
func (o *object) key(name string) {
	if o.any {
		o.b = append(o.b, ',')
	}
	o.any = true
	o.b = append(append(append(o.b, '"'), name...), '"', ':')
}

func (o *object) text(name, value string) {
	o.key(name)
	o.b = o.appendText(value)
}

// textIf is text with omitempty; so are the others that end in If.
func (o *object) textIf(name, value string) {
	if value != "" {
		o.text(name, value)
	}
}

func (o *object) appendText(value string) []byte {
	for i := range len(value) {
		switch c := value[i]; {
		case c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' || c == 0x7f:
			return o.appendAny(value)
		}
	}
	return append(append(append(o.b, '"'), value...), '"')
}

// appendAny leaves a value to encoding/json.
func (o *object) appendAny(value any) []byte {
	raw, err := json.Marshal(value)
	if err != nil && o.err == nil {
		o.err = err
	}
	return append(o.b, raw...)
}

func (o *object) value(name string, value any) {
	o.key(name)
	o.b = o.appendAny(value)
}

func (o *object) raw(name string, value json.RawMessage) {
	if len(value) > 0 {
		o.value(name, value)
	}
}

func (o *object) error(name string, value *Error) {
	if value != nil {
		o.value(name, value)
	}
}

func (o *object) number(name string, value int64) {
	o.key(name)
	o.b = strconv.AppendInt(o.b, value, 10)
}

func (o *object) numberIf(name string, value int64) {
	if value != 0 {
		o.number(name, value)
	}
}

// floatIf appends numbers of a usual size in the form that encoding/json gives
// them; very large and very small ones are left to it.
func (o *object) floatIf(name string, value float64) {
	switch size := math.Abs(value); {
	case value == 0:
	case size >= 1e-6 && size < 1e21:
		o.key(name)
		o.b = strconv.AppendFloat(o.b, value, 'f', -1, 64)
	default:
		o.value(name, value)
	}
}

func (o *object) boolIf(name string, value bool) {
	if value {
		o.key(name)
		o.b = append(o.b, "true"...)
	}
}

func (o *object) time(name string, at time.Time) {
	o.key(name)
	b, err := at.AppendText(append(o.b, '"'))
	if err != nil {
		if o.err == nil {
			o.err = err
		}
		return
	}
	o.b = append(b, '"')
}

func (o *object) timeIf(name string, at *time.Time) {
	if at != nil {
		o.time(name, *at)
	}
}

// AppendJSON appends the event as encoding/json encodes it. Its errors are those
// of encoding/json.
func (e *Event) AppendJSON(b []byte) ([]byte, error) {
	o := newObject(b)
	o.number("seq", e.Seq)
	o.text("type", string(e.Type))
	o.time("timestamp", e.At)
	o.text("workflow_id", string(e.RunID))
	o.textIf("side", string(e.Side))
	o.textIf("owner", e.Owner)
	o.textIf("task_id", e.TaskID)
	o.textIf("tool", e.Tool)
	if e.Layer != nil {
		o.number("layer_index", int64(*e.Layer))
	}
	o.textIf("checkpoint_id", string(e.ApprovalID))
	o.floatIf("execution_time_ms", e.DurationMS)
	o.textIf("message", e.Message)
	o.error("error", e.Error)
	o.raw("data", e.Data)
	return o.end()
}

// AppendJSON appends the record as encoding/json encodes it. Its errors are
// those of encoding/json.
func (r *Record) AppendJSON(b []byte) ([]byte, error) {
	o := newObject(b)
	o.number("seq", r.Seq)
	o.text("kind", string(r.Kind))
	o.textIf("call_id", r.CallID)
	o.textIf("tool", r.Tool)
	o.number("layer_index", int64(r.Layer))
	o.numberIf("attempt", int64(r.Attempt))
	o.textIf("args_digest", r.ArgsDigest)
	o.raw("args", r.Args)
	o.raw("sent", r.Sent)
	o.textIf("outcome", string(r.Outcome))
	o.raw("result", r.Result)
	o.error("error", r.Error)
	if !r.StartedAt.IsZero() {
		o.time("started_at", r.StartedAt)
	}
	o.time("at", r.At)
	return o.end()
}

// AppendJSON appends the header as encoding/json encodes it. Its errors are
// those of encoding/json.
func (r *Run) AppendJSON(b []byte) ([]byte, error) {
	o := newObject(b)
	o.text("id", string(r.ID))
	o.text("side", string(r.Side))
	o.text("workspace", r.Workspace)
	o.textIf("owner", r.Owner)
	o.boolIf("remote", r.Remote)
	o.textIf("origin", r.Origin)
	o.text("kind", string(r.Kind))
	o.text("state", string(r.State))
	o.textIf("intent", r.Intent)
	o.time("created_at", r.CreatedAt)
	o.time("updated_at", r.UpdatedAt)
	o.timeIf("expires_at", r.ExpiresAt)
	o.timeIf("ended_at", r.EndedAt)
	o.key("options")
	o.nested(r.Options.appendJSON)
	o.number("total_layers", int64(r.TotalLayers))
	o.number("current_layer", int64(r.CurrentLayer))
	o.raw("result", r.Result)
	o.error("error", r.Error)
	o.textIf("parent_id", string(r.ParentID))
	o.key("requested_by")
	o.nested(r.RequestedBy.appendJSON)
	o.textIf("idempotency_key", r.IdempotencyKey)
	o.textIf("idempotency_digest", r.IdempotencyDigest)
	o.textIf("runner", r.Runner)
	o.number("epoch", r.Epoch)
	o.numberIf("dag_version", int64(r.DAGVersion))
	if r.Abort != nil {
		o.value("abort", r.Abort)
	}
	o.number("journal_seq", r.JournalSeq)
	o.floatIf("active_ms", r.ActiveMS)
	return o.end()
}

// nested appends the value of a key that is begun.
func (o *object) nested(encode func([]byte) ([]byte, error)) {
	b, err := encode(o.b)
	if err != nil {
		if o.err == nil {
			o.err = err
		}
		return
	}
	o.b = b
}

func (r *RunOptions) appendJSON(b []byte) ([]byte, error) {
	o := newObject(b)
	o.numberIf("timeout_ms", r.TimeoutMS)
	o.boolIf("per_layer_validation", r.PerLayer)
	o.textIf("hil", string(r.HIL))
	o.raw("input", r.Input)
	return o.end()
}

func (a *Actor) appendJSON(b []byte) ([]byte, error) {
	o := newObject(b)
	o.text("who", a.Who)
	o.text("via", string(a.Via))
	return o.end()
}
