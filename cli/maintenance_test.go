package cli_test

import (
	"context"
	"testing"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core"
)

// fakeMaintenance is what works on database files.
type fakeMaintenance struct {
	applied []app.AppliedLog
	err     error
	report  app.BackupReport
	force   bool
}

func (f *fakeMaintenance) ApplyLogs(context.Context) ([]app.AppliedLog, error) {
	return f.applied, f.err
}

func (f *fakeMaintenance) Backup(_ context.Context, file string) (*app.BackupReport, error) {
	f.report.File = file
	return &f.report, f.err
}

func (f *fakeMaintenance) Restore(_ context.Context, file string, force bool) (*app.BackupReport, error) {
	f.report.File, f.force = file, force
	return &f.report, f.err
}

func (s *shell) openMaintenance() func(app.OpenOptions) (app.Maintenance, error) {
	if s.maintenance == nil {
		return nil
	}
	return func(o app.OpenOptions) (app.Maintenance, error) {
		s.seenOpenFlags = o
		return s.maintenance, nil
	}
}

// TestDoctor_ApplyLog: the log of an older pml is applied without opening the store,
// which would refuse it.
func TestDoctor_ApplyLog(t *testing.T) {
	t.Parallel()
	s := &shell{maintenance: &fakeMaintenance{applied: []app.AppliedLog{{Store: "/h/pending.db", Commits: 4}}}}
	s.run("doctor", "--apply-log", "--home", "/h").want(t, 0).has(t, "out", "applied 4 commit(s) to /h/pending.db")
	if s.opened > 0 || s.seenOpenFlags.Home != "/h" {
		t.Errorf("opened %d times, with %+v", s.opened, s.seenOpenFlags)
	}
	s.run("doctor", "--apply-log", "--json").want(t, 0).has(t, "out", `"commits": 4`)
	s = &shell{maintenance: &fakeMaintenance{}}
	s.run("doctor", "--apply-log").want(t, 0).has(t, "out", "no redo log")
	s.run("doctor", "--apply-log", "--json").want(t, 0).has(t, "out", `"items": []`)
	s = &shell{maintenance: &fakeMaintenance{err: core.Errorf(core.CodeStoreBusy, "in use")}}
	s.run("doctor", "--apply-log").want(t, 1).has(t, "err", "in use")
}

// TestBackup: what a backup lacks is said, also where output is for programs.
func TestBackup(t *testing.T) {
	t.Parallel()
	u := &fakeMaintenance{report: app.BackupReport{Stores: []string{"pending"}, Files: 3, Notes: []string{"use pg_dump"}}}
	s := &shell{maintenance: u}
	s.run("backup", "x.tar").want(t, 0).has(t, "out", "x.tar", "this machine's own runs").has(t, "err", "use pg_dump")
	s.run("backup", "x.tar", "--json").want(t, 0).has(t, "out", `"stores"`, `"use pg_dump"`)
	s.run("backup").want(t, 2)
	s.run("restore", "x.tar").want(t, 0).has(t, "out", "restored")
	if u.force {
		t.Error("forced")
	}
	if s.run("restore", "x.tar", "--force").want(t, 0); !u.force {
		t.Error("not forced")
	}
	u.err = core.Errorf(core.CodeStoreBusy, "in use")
	s.run("restore", "x.tar").want(t, 1).has(t, "err", "in use")
}
