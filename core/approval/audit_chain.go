package approval

import (
	"encoding/json"
	"fmt"

	"github.com/casys-ai/pml/core"
)

// Chain returns row as the successor of prev in the audit log: with the next
// Seq, the hash of prev and its own. prev is the zero row for the first one.
// A hash is core.Digest of the row without its hash field; the hash of the row
// before it is part of that.
func Chain(prev, row core.AuditRow) (core.AuditRow, error) {
	row.Seq = prev.Seq + 1
	row.PrevHash = prev.Hash
	row.At = row.At.UTC().Round(0) // drops what JSON would not keep
	h, err := hash(row)
	if err != nil {
		return row, err
	}
	row.Hash = h
	return row, nil
}

// Verify checks rows that follow one another in the audit log. It returns the
// Seq of the first that does not fit, and why; 0 when all do. A list that does
// not begin with the log's first row is checked from its own first row on.
// That the newest rows were cut off cannot be seen from the rows.
func Verify(rows []core.AuditRow) (bad int64, reason string) {
	for i, row := range rows {
		h, err := hash(row)
		if err != nil {
			return row.Seq, err.Error()
		}
		if h != row.Hash {
			return row.Seq, "the row was changed: its hash does not match its content"
		}
		if i == 0 {
			if row.Seq == 1 && row.PrevHash != "" {
				return row.Seq, "the first row names a row before it"
			}
			continue
		}
		prev := rows[i-1]
		if row.Seq != prev.Seq+1 {
			return row.Seq, fmt.Sprintf("rows are missing between %d and %d", prev.Seq, row.Seq)
		}
		if row.PrevHash != prev.Hash {
			return row.Seq, "the row does not follow from the one before it: one was removed, put in or replaced"
		}
	}
	return 0, ""
}

// hashed is a row without its hash, its side and what is only filled in for a
// reader: the outer fields shadow those and are left out while nil.
type hashed struct {
	core.AuditRow
	Hash      *string `json:"hash,omitempty"`
	Side      *string `json:"side,omitempty"`
	Arguments *string `json:"arguments,omitempty"`
	Shown     *string `json:"shown,omitempty"`
}

func hash(row core.AuditRow) (string, error) {
	raw, err := json.Marshal(hashed{AuditRow: row})
	if err != nil {
		return "", core.Errorf(core.CodeInternal, "cannot encode the audit row %d: %w", row.Seq, err)
	}
	return core.Digest(raw)
}
