package sandbox

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/casys-ai/pml/core"
)

// The operations that the parent asks a child for.
const (
	opOpen    = "open"
	opDeliver = "deliver"
	opCompile = "compile"
	opEval    = "eval"
	opEnd     = "end" // the script is over; another one may come
)

// The kinds of lines that a child writes.
const (
	replyReady    = "ready"    // once, when the VM is prepared
	replyProgress = "progress" // a long turn goes on; moves the parent's deadline
	replyTurn     = "turn"
	replyCompiled = "compiled"
	replyValue    = "value"
	replyFresh    = "fresh" // to opEnd, when the next VM is prepared
	replyError    = "error" // the child is of no more use unless Alive is set
)

// request is one line from the parent, followed by the values of its
// deliveries as they are: large results are not encoded on their way.
type request struct {
	Op         string                     `json:"op"`
	Limits     Limits                     `json:"limits,omitzero"`
	Script     string                     `json:"script,omitempty"`
	Source     string                     `json:"source,omitempty"`
	File       string                     `json:"file,omitempty"`
	Input      json.RawMessage            `json:"input,omitempty"`
	Results    json.RawMessage            `json:"results,omitempty"`
	Seed       string                     `json:"seed,omitempty"`
	Now        int64                      `json:"now,omitempty"` // ms since 1970
	Told       int64                      `json:"told,omitempty"`
	Expression bool                       `json:"expression,omitempty"`
	Globals    map[string]json.RawMessage `json:"globals,omitempty"`
	Frozen     bool                       `json:"frozen,omitempty"`
	Deliveries []wireDelivery             `json:"deliveries,omitempty"`
}

type wireDelivery struct {
	Seq  int64       `json:"seq"`
	ID   int         `json:"id"`
	Size int         `json:"size,omitempty"` // of value, which follows the line
	Err  *core.Error `json:"err,omitempty"`
	At   int64       `json:"at"`

	value []byte
}

// reply is one line from a child. The parent trusts nothing in it but its form.
type reply struct {
	Kind   string          `json:"kind"`
	Turn   *wireTurn       `json:"turn,omitempty"`
	Script string          `json:"script,omitempty"`
	Plan   *core.Plan      `json:"plan,omitempty"`
	Value  json.RawMessage `json:"value,omitempty"`
	Logs   []Log           `json:"logs,omitempty"` // of an evaluation
	Err    *core.Error     `json:"err,omitempty"`
	// Alive says that the child can serve more after an error.
	Alive bool `json:"alive,omitempty"`
}

type wireTurn struct {
	Calls     []wireCall      `json:"calls,omitempty"`
	Logs      []Log           `json:"logs,omitempty"`
	Cancelled []int           `json:"cancelled,omitempty"`
	Done      bool            `json:"done,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Err       *core.Error     `json:"err,omitempty"`
	Unhandled *core.Error     `json:"unhandled,omitempty"`
}

type wireCall struct {
	ID     int             `json:"id"`
	Server string          `json:"server,omitempty"`
	Tool   string          `json:"tool,omitempty"`
	Args   json.RawMessage `json:"args,omitempty"`
	Sleep  int64           `json:"sleep,omitempty"` // ms
	Timer  bool            `json:"timer,omitempty"`
	Site   core.Position   `json:"site,omitzero"`
	At     core.Position   `json:"at,omitzero"`
	After  int64           `json:"after,omitempty"`
}

// turn is the exported form.
func (w *wireTurn) turn() Turn {
	t := Turn{Logs: w.Logs, Cancelled: w.Cancelled, Done: w.Done, Result: w.Result, Err: w.Err, Unhandled: w.Unhandled}
	if t.Done && t.Err == nil && len(t.Result) == 0 {
		t.Result = core.Null
	}
	if len(w.Calls) > 0 {
		t.Calls = make([]Call, len(w.Calls))
	}
	for i, c := range w.Calls {
		t.Calls[i] = Call{
			ID: c.ID, Server: c.Server, Tool: c.Tool, Args: c.Args, IsSleep: c.Timer,
			Sleep: time.Duration(c.Sleep) * time.Millisecond, Site: c.Site, At: c.At, After: c.After,
		}
	}
	return t
}

// errLineTooLong is the fault of a peer whose line exceeds what was agreed.
var errLineTooLong = errors.New("the line is too long")

// readLine reads up to a newline, at most max bytes, so that a peer that never
// ends its line costs no more than that.
func readLine(r *bufio.Reader, max int64) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if int64(len(line)+len(part)) > max {
			return nil, errLineTooLong
		}
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return line, err
	}
}

// writeLine writes v as one line of JSON.
func writeLine(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// writeRequest writes a request with its values.
func writeRequest(w *bytes.Buffer, r *request) error {
	if err := writeLine(w, r); err != nil {
		return err
	}
	for _, d := range r.Deliveries {
		w.Write(d.value)
	}
	return nil
}

// readRequest reads a request with its values. The error is that of the
// connection; bad is what is wrong with the request.
func readRequest(r *bufio.Reader) (req *request, bad, err error) {
	line, err := readLine(r, maxRequest)
	if err != nil {
		return nil, nil, err
	}
	req, bad = decodeRequest(line)
	if bad != nil {
		return nil, bad, nil
	}
	total := 0
	for i := range req.Deliveries {
		d := &req.Deliveries[i]
		if d.Size < 0 || d.Size > maxRequest-total {
			return nil, errLineTooLong, nil
		}
		total += d.Size
		d.value = make([]byte, d.Size)
		if _, err := io.ReadFull(r, d.value); err != nil {
			return nil, nil, err
		}
	}
	return req, nil, nil
}

// decodeReply reads a line of a child. Whatever the bytes are, it returns a
// reply of a known kind or an error.
func decodeReply(line []byte) (*reply, error) {
	var r reply
	if err := json.Unmarshal(line, &r); err != nil {
		return nil, err
	}
	switch {
	case r.Kind == replyTurn && r.Turn == nil, r.Kind == replyError && r.Err == nil:
		return nil, errors.New("the reply is incomplete")
	case r.Kind == replyReady, r.Kind == replyProgress, r.Kind == replyTurn,
		r.Kind == replyCompiled, r.Kind == replyValue, r.Kind == replyFresh, r.Kind == replyError:
		return &r, nil
	}
	return nil, errors.New("the reply is of no known kind")
}

// decodeRequest reads a line of the parent.
func decodeRequest(line []byte) (*request, error) {
	var r request
	if err := json.Unmarshal(line, &r); err != nil {
		return nil, err
	}
	switch r.Op {
	case opOpen, opDeliver, opCompile, opEval, opEnd:
		r.Limits = r.Limits.withDefaults()
		return &r, nil
	}
	return nil, errors.New("the request is of no known kind")
}
