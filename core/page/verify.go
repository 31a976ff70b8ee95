package page

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/approval"
)

// MaxExport is how long a file may be, in bytes: longer than any that pml writes.
const MaxExport = 128 << 20

// pageRows are the rows of the audit log that are read at once.
const pageRows = 1000

// Rows are the rows of the audit log that are about some runs, and the newest of all.
type Rows struct {
	Of   []core.AuditRow
	Head *Head
}

// RowsOf reads the rows of one side's audit log that are about runs.
func RowsOf(ctx context.Context, trail api.Audit, side core.Side, runs ...core.ID) (Rows, error) {
	var out Rows
	err := eachRow(ctx, trail, side, func(r core.AuditRow) {
		out.Head = &Head{Seq: r.Seq, Hash: r.Hash}
		if slices.Contains(runs, r.RunID) {
			out.Of = append(out.Of, r)
		}
	})
	return out, err
}

// eachRow calls f for each row of a side, oldest first, without what the log of the
// side itself does not say.
func eachRow(ctx context.Context, trail api.Audit, side core.Side, f func(core.AuditRow)) error {
	for since := (api.Since{}); ; {
		rows, err := trail.Audit(ctx, api.AuditQuery{Since: since, Limit: pageRows})
		if err != nil || len(rows) == 0 {
			return err
		}
		for _, r := range rows {
			since = since.Past(cmp.Or(r.Side, side), r.Seq)
			if r.Side != "" && r.Side != side {
				continue
			}
			r.Side, r.Arguments, r.Sent = "", nil, nil
			f(r)
		}
	}
}

// Verdict says whether a file shows what the audit log of this machine has.
type Verdict struct {
	OK         bool      `json:"ok"`
	WorkflowID core.ID   `json:"workflow_id,omitempty"`
	Side       core.Side `json:"side,omitempty"`
	Decisions  int       `json:"decisions"` // that the file shows
	// Later are rows about the run that came after the file was made.
	Later []int64 `json:"later,omitempty"`
	// Bad is the row that is not as in the log; Reason says what is wrong.
	Bad    int64  `json:"first_bad_seq,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Verify compares a file with the audit log: whether it is laid out as its data say,
// whether the chain of the log is whole, whether the file hangs from it, and whether it
// has just the rows about its runs that were there. An error is about the log, that it
// cannot be read.
func Verify(ctx context.Context, trail api.Audit, file []byte) (Verdict, error) {
	e, wrong := parse(file)
	if wrong != "" {
		return Verdict{Reason: wrong}, nil
	}
	v := Verdict{WorkflowID: e.Runs[0].ID, Side: e.Side, Decisions: len(e.Rows)}
	report, err := trail.VerifyAudit(ctx)
	if err != nil {
		return v, err
	}
	if i := slices.IndexFunc(report.Logs, func(l api.AuditReport) bool { return l.Side == e.Side }); i >= 0 {
		report = report.Logs[i]
	}
	if !report.OK {
		v.Bad, v.Reason = report.Bad, "the audit log of this machine does not hold: "+report.Reason
		return v, nil
	}
	err = v.compare(ctx, trail, e)
	v.OK = err == nil && v.Reason == ""
	return v, err
}

// clocksDiffer is by how much the clocks of machines that share a log may.
const clocksDiffer = time.Minute

// compare compares the rows of a file with those of the log.
func (v *Verdict) compare(ctx context.Context, trail api.Audit, e Export) error {
	head, rest, ids := int64(0), e.Rows, e.ids()
	found := e.Head == nil
	if !found {
		head = e.Head.Seq
	}
	err := eachRow(ctx, trail, e.Side, func(r core.AuditRow) {
		if r.Seq == head {
			found = r.Hash == e.Head.Hash
		}
		switch {
		case v.Reason != "" || !ids[r.RunID]:
		case r.Seq > head && r.At.Before(e.ExportedAt.Add(-clocksDiffer)):
			v.wrong(r.Seq, "the file leaves out line %d of the audit log, which was there a while before the file says that it was made", r.Seq)
		case r.Seq > head:
			v.Later = append(v.Later, r.Seq)
		case len(rest) == 0 || rest[0].Seq > r.Seq:
			v.wrong(r.Seq, "the file leaves out line %d of the audit log", r.Seq)
		case rest[0].Seq < r.Seq:
			v.wrong(rest[0].Seq, "the audit log has no such line %d about the run", rest[0].Seq)
		case !same(rest[0], r):
			v.wrong(r.Seq, "the file says something else than line %d of the audit log", r.Seq)
		default:
			rest = rest[1:]
		}
	})
	switch {
	case err != nil || v.Reason != "":
	case len(rest) > 0:
		v.wrong(rest[0].Seq, "the audit log has no such line %d about the run", rest[0].Seq)
	case !found:
		v.wrong(head, "line %d of the audit log is not the one that the file hangs from: the file is of another machine, or of a log that was replaced", head)
	}
	return err
}

func (v *Verdict) wrong(seq int64, text string, args ...any) {
	v.Bad, v.Reason = seq, fmt.Sprintf(text, args...)
}

// same reports whether the row of a file is that of the log. One that was written before
// a key was declared may show its value here or there: then it is the row as it was
// written, which its hash tells.
func same(file, log core.AuditRow) bool {
	if file.Hash != log.Hash || file.Shown != "" && file.Shown != log.Shown { // which the hash does not cover
		return false
	}
	a, errA := json.Marshal(file)
	b, errB := json.Marshal(log)
	if errA == nil && errB == nil && bytes.Equal(a, b) {
		return true
	}
	_, changed := approval.Verify([]core.AuditRow{file})
	return changed == ""
}

const (
	dataBegin = `<script type="application/json" id="pml-run">`
	dataEnd   = `</script>`
)

// parse reads a file, and says what is wrong with it: one that is not laid out as its
// data say shows something else than what could be checked.
func parse(file []byte) (e Export, wrong string) {
	const none = "it is no page of a run that pml workflows export --html has written, or was cut off"
	if len(file) > MaxExport {
		return e, fmt.Sprintf("it has %d bytes, more than %d", len(file), MaxExport)
	}
	_, rest, ok := bytes.Cut(file, []byte(dataBegin))
	raw, _, ended := bytes.Cut(rest, []byte(dataEnd))
	if !ok || !ended || bytes.ContainsRune(raw, '<') || core.TooDeep(raw) {
		return e, none
	}
	if tooMuch(raw) {
		return e, "it says more than any page that pml writes"
	}
	if err := json.Unmarshal(raw, &e); err != nil || e.Format != exportFormat {
		return e, none
	}
	if e.Version != ExportVersion {
		return e, fmt.Sprintf("the page has format %d, which this pml does not know: it was written by pml %s", e.Version, core.Visible(e.Pml, 40, false))
	}
	if core.CheckKeys("the page", raw) != nil || len(e.Runs) == 0 {
		return e, none
	}
	same := compared{file: file}
	if err := e.layOut(&same, raw); err != nil && !errors.Is(err, errDiffers) {
		return e, core.AsError(err).Message
	}
	if same.at < len(file) || same.differs {
		return e, fmt.Sprintf("the page was changed: from line %d on it shows something else than its data say", bytes.Count(file[:same.at], []byte("\n"))+1)
	}
	return e, ""
}

// maxObjects is how many objects the data of a file may have: more than those of any run,
// and few enough that a file of nothing else fits into memory. maxText is for one text.
const (
	maxObjects = 100_000
	maxText    = 256 << 10
)

// tooMuch reports whether data have more objects, more of other things, or a longer text
// than a file of pml has. It is known before anything is made of them.
func tooMuch(raw []byte) bool {
	objects, others, text := 0, 0, -1 // text is where one begins
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case text >= 0 && i-text > maxText:
			return true
		case text >= 0 && c == '\\':
			i++
		case text >= 0 && c == '"':
			text = -1
		case c == '"':
			text = i
		case text >= 0:
		case c == '{':
			objects++
		case c == ',' || c == '[':
			others++
		}
	}
	return objects > maxObjects || others > 30*maxObjects
}

var errDiffers = errors.New("it is another file")

// compared takes a file only as far as it is the one that there is.
type compared struct {
	file    []byte
	at      int // so far it is the same
	differs bool
}

// Write compares the next bytes with the file, and fails at the first that differs.
func (c *compared) Write(p []byte) (n int, err error) {
	for n < len(p) && c.at < len(c.file) && p[n] == c.file[c.at] {
		n, c.at = n+1, c.at+1
	}
	if n < len(p) {
		c.differs = true
		return n, errDiffers
	}
	return n, nil
}
