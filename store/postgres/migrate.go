package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/casys-ai/pml/core"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// formatVersion is the format that this package writes: the number of the
// newest migration. Within a major version of pml formats only grow.
const formatVersion = 6

const versionTable = "pml_migrations"

// migrationLock keeps two servers from migrating at once.
const migrationLock = 0x706d6c5f6d696772

// migrate brings the database to the present format. A newer one is refused
// and left as it is.
func migrate(ctx context.Context, config *pgx.ConnConfig) error {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if done, err := checkFormat(ctx, conn); done || err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(migrationLock)); err != nil {
		return err
	}
	// Somebody may have migrated while the lock was waited for.
	if done, err := checkFormat(ctx, conn); done || err != nil {
		return err
	}
	db := stdlib.OpenDB(*config)
	defer func() { _ = db.Close() }()
	return up(ctx, db)
}

func up(ctx context.Context, db *sql.DB) error {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithTableName(versionTable), goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return err
	}
	_, err = p.Up(ctx)
	return err
}

// checkFormat reports whether the database has the present format.
func checkFormat(ctx context.Context, conn *pgx.Conn) (bool, error) {
	var version int64
	err := conn.QueryRow(ctx, "SELECT coalesce(max(version_id), 0) FROM "+versionTable+" WHERE is_applied").Scan(&version)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "42P01" { // no such table
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if version > formatVersion {
		return false, core.Errorf(core.CodeStoreNewer,
			"the database has format %d and this pml knows formats up to %d: a newer pml has written it; update this one, or use another database",
			version, formatVersion).WithNext("pml", "version")
	}
	return version == formatVersion, nil
}
