package app

import (
	"context"
	"time"
)

// Maintenance works on the database files of pml's home without opening them for runs.
type Maintenance interface {
	// ApplyLogs brings the redo logs that an older pml has left into their files. It
	// names the files that had one.
	ApplyLogs(ctx context.Context) ([]AppliedLog, error)
	// Backup writes the runs of both halves, as they are now, to a new file.
	Backup(ctx context.Context, file string) (*BackupReport, error)
	// Restore verifies a backup and puts it in the place of what there is. It refuses
	// to lose runs, or rows of the audit log, that the backup lacks, unless force is set.
	Restore(ctx context.Context, file string, force bool) (*BackupReport, error)
}

// BackupReport says what a backup holds.
type BackupReport struct {
	File      string    `json:"file"`
	CreatedAt time.Time `json:"created_at,omitzero"`
	Stores    []string  `json:"stores"` // pending: this machine's own runs; server: those of its server
	Files     int       `json:"files"`
	Notes     []string  `json:"notes,omitempty"` // what is not in it
}

// AppliedLog is a database file whose redo log was applied.
type AppliedLog struct {
	Store   string `json:"store"`
	Commits int    `json:"commits"`
}
