package process

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/env"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/store/backup"
	"github.com/casys-ai/pml/store/bolt"
)

// stagePattern names the folders in a home in which backups are put together and taken
// apart: on the file system of the databases, so that a rename is enough.
const stagePattern = ".backup-*"

// staged runs f with a folder in the home that goes afterwards.
func staged(dir string, f func(stage string) error) (err error) {
	stage, err := os.MkdirTemp(dir, stagePattern)
	if err != nil {
		return core.Errorf(core.CodeStoreFailed, "cannot make a folder in %s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(stage)) }()
	return f(stage)
}

// in is where a store of these options lies in a stage.
func in(stage string, opts bolt.Options) bolt.Options {
	opts.Dir = filepath.Join(stage, opts.Name)
	return opts
}

func databaseFile(opts bolt.Options) string { return filepath.Join(opts.Dir, opts.Name+".db") }

// Backup implements cli.Maintenance.
func (u maintenance) Backup(ctx context.Context, file string) (*app.BackupReport, error) {
	if _, err := os.Lstat(file); err == nil {
		return nil, core.Errorf(core.CodeUsage, "%s is there already; name a file that is not", file)
	}
	if _, err := os.Stat(u.home.Dir); errors.Is(err, fs.ErrNotExist) {
		return nil, u.nothing()
	}
	var report *app.BackupReport
	err := staged(u.home.Dir, func(stage string) error {
		m := backup.Manifest{CreatedAt: systemClock{}.Now().UTC(), Pml: buildVersion().Version}
		var notes []string
		for _, opts := range u.stores() {
			ok, note, err := u.stageStore(ctx, stage, opts)
			if err != nil {
				return err
			}
			if ok {
				m.Stores = append(m.Stores, opts.Name)
			}
			if note != "" {
				notes = append(notes, note)
			}
		}
		if len(m.Stores) == 0 {
			return u.nothing()
		}
		m, err := writeArchive(file, m, stage)
		report = &app.BackupReport{File: file, Stores: m.Stores, Files: len(m.Files), Notes: notes}
		return err
	})
	return report, err
}

func (u maintenance) nothing() error {
	return core.Errorf(core.CodeUsage, "there is nothing to back up in %s: pml has kept no runs there", u.home.Dir)
}

// stageStore takes a snapshot of a store; false when there is none, with a note where
// its runs lie elsewhere.
func (u maintenance) stageStore(ctx context.Context, stage string, opts bolt.Options) (ok bool, note string, err error) {
	if opts.Exclusive {
		found, err := u.askServer(ctx, stage)
		if core.CodeOf(err) == errElsewhere {
			return false, core.AsError(err).Message, nil
		}
		if found || err != nil {
			return found, "", err
		}
	}
	if _, err := os.Lstat(databaseFile(opts)); errors.Is(err, fs.ErrNotExist) {
		return false, "", nil
	}
	st, err := bolt.Open(opts)
	if err != nil {
		return false, "", err
	}
	err = st.Snapshot(ctx, in(stage, opts).Dir)
	return true, "", errors.Join(err, st.Close())
}

// errElsewhere is with what a server answers whose runs lie in PostgreSQL or an engine.
const errElsewhere = core.CodeUsage

// askServer has the running server of this home give a backup of its own; false when
// there is no server.
func (u maintenance) askServer(ctx context.Context, stage string) (found bool, err error) {
	d, err := newDaemon(u.home, env.OS())
	if err != nil {
		return false, err
	}
	f, err := os.CreateTemp(u.home.Dir, stagePattern)
	if err != nil {
		return false, core.Errorf(core.CodeStoreFailed, "cannot make a file in %s: %w", u.home.Dir, err)
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	if found, err = d.Backup(ctx, f); err != nil || !found {
		return found, err
	}
	if _, err = f.Seek(0, io.SeekStart); err == nil {
		_, err = backup.Read(f, stage)
	}
	return true, err
}

// writeArchive writes the archive beside its name and gives it that when it is durable.
func writeArchive(file string, m backup.Manifest, stage string) (backup.Manifest, error) {
	f, err := os.CreateTemp(filepath.Dir(file), ".pml-backup-*") // 0600
	if err != nil {
		return m, core.Errorf(core.CodeInvalidArguments, "cannot write %s: %w", file, err)
	}
	m, err = backup.Write(f, m, stage)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Link(f.Name(), file) // unlike a rename it replaces nothing
	}
	if err = errors.Join(err, os.Remove(f.Name())); err != nil {
		return m, core.Errorf(core.CodeStoreFailed, "cannot write the backup %s: %w", file, err)
	}
	return m, nil
}

// Restore implements cli.Maintenance.
func (u maintenance) Restore(ctx context.Context, file string, force bool) (*app.BackupReport, error) {
	if st, err := os.Stat(file); err == nil && !st.Mode().IsRegular() { // to open a pipe is to wait for somebody
		return nil, core.Errorf(core.CodeInvalidArguments, "%s is no regular file; name the one that pml backup wrote", core.Visible(file, 200, false))
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, core.Errorf(core.CodeInvalidArguments, "cannot read the backup: %w", err)
	}
	defer f.Close()
	if err := u.home.Ensure(); err != nil {
		return nil, err
	}
	var report *app.BackupReport
	err = staged(u.home.Dir, func(stage string) error {
		m, err := backup.Read(f, stage)
		if err != nil {
			return err
		}
		report = &app.BackupReport{File: file, Stores: m.Stores, Files: len(m.Files), CreatedAt: m.CreatedAt}
		return u.restore(ctx, stage, m, force)
	})
	return report, err
}

// restore puts the stores of a stage in their places. Every check of every store comes
// before the first of them is replaced.
func (u maintenance) restore(ctx context.Context, stage string, m backup.Manifest, force bool) error {
	type one struct {
		held   *bolt.Held
		staged bolt.Options
	}
	var all []one
	defer func() {
		for _, o := range all {
			o.held.Release()
		}
	}()
	for _, opts := range u.stores() {
		if !slices.Contains(m.Stores, opts.Name) {
			continue
		}
		held, err := bolt.Hold(opts)
		if err != nil {
			return inUse(err, opts)
		}
		all = append(all, one{held, in(stage, opts)})
		if err := u.check(ctx, held, in(stage, opts), databaseFile(opts), force); err != nil {
			return err
		}
		if err := note(ctx, in(stage, opts), m); err != nil {
			return err
		}
	}
	for _, o := range all {
		if err := o.held.Replace(o.staged); err != nil {
			return err
		}
	}
	return nil
}

// inUse says how to end the server, where it is what holds a store.
func inUse(err error, opts bolt.Options) error {
	var e *core.Error
	if opts.Name == "server" && errors.As(err, &e) && e.Code == core.CodeStoreBusy {
		return e.WithNext("pml", "server", "stop")
	}
	return err
}

// check verifies a staged store, and refuses to lose what the present one has in
// addition.
func (u maintenance) check(ctx context.Context, held *bolt.Held, staged bolt.Options, path string, force bool) error {
	next, err := bolt.Verify(ctx, staged)
	if err != nil || force {
		return err
	}
	now, err := held.Contents()
	if err != nil {
		return core.Errorf(core.CodeStoreFailed, "%w; with --force it is replaced all the same", err)
	}
	lost := 0
	for _, id := range now.Runs {
		if !slices.Contains(next.Runs, id) {
			lost++
		}
	}
	if lost == 0 && now.Audit <= next.Audit {
		return nil
	}
	return core.Errorf(core.CodeUsage, "the store %s has %d workflow(s) and %d row(s) of the audit log that the backup lacks, and they would be lost; back it up first, and restore with --force",
		path, lost, max(0, now.Audit-next.Audit)).WithNext("pml", "backup", "FILE")
}

// note writes into the audit log of a staged store that it comes from a backup.
func note(ctx context.Context, staged bolt.Options, m backup.Manifest) error {
	st, err := bolt.Open(staged)
	if err != nil {
		return err
	}
	err = st.Record(ctx, core.AuditRow{
		Outcome: core.ApprovalApproved, By: core.Actor{Who: userName(), Via: core.ViaCLI},
		Reason: "restored from a backup of " + m.CreatedAt.UTC().Format("2006-01-02 15:04:05Z"),
	})
	return errors.Join(err, st.Close())
}

// backup writes a backup of this server's runs. Those in PostgreSQL are for its own
// tools.
func (s *serving) backup(ctx context.Context, w io.Writer) error {
	if s.o.Engine != "" {
		return core.Errorf(errElsewhere, "the server's runs lie in Temporal and are not in this backup; back up Temporal's database and the folder of blobs, at the same time")
	}
	if s.snapshot == nil {
		return core.Errorf(errElsewhere, "the server's runs lie in PostgreSQL and are not in this backup; use pg_dump for them")
	}
	return staged(s.home.Dir, func(stage string) error {
		if err := s.snapshot(ctx, filepath.Join(stage, "server")); err != nil {
			return err
		}
		_, err := backup.Write(w, backup.Manifest{CreatedAt: systemClock{}.Now().UTC(), Pml: buildVersion().Version, Stores: []string{"server"}}, stage)
		return err
	})
}
