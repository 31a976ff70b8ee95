package postgres

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/casys-ai/pml/core"
)

// passing reports whether an error says nothing about what was asked for: the
// connection broke, the database is starting or stopping, or two transactions
// stood in each other's way. The outcome of a commit is then unknown.
func passing(err error) bool {
	var known *core.Error
	if err == nil || errors.As(err, &known) || errors.Is(err, pgx.ErrNoRows) {
		return false
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return true // not an answer of the database
	}
	switch {
	case strings.HasPrefix(pg.Code, "08"), strings.HasPrefix(pg.Code, "57P"), strings.HasPrefix(pg.Code, "40"):
		return true
	case pg.Code == "53300", pg.Code == "57014", pg.Code == "25006": // too many connections, cancelled, a stand-by
		return true
	}
	return false
}

// unknown is an error after a commit was sent: it may have been kept.
type unknown struct{ error }

// Unwrap returns what broke the connection.
func (u *unknown) Unwrap() error { return u.error }

// failure turns an error of the database into one that says what to do. nil
// stays nil, and what is a core.Error already stays as it is.
func failure(err error) error {
	if err == nil {
		return nil
	}
	if known, ok := errors.AsType[*core.Error](err); ok {
		return known
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return core.Errorf(core.CodeStoreFailed,
			"PostgreSQL does not answer: %w; see that it runs and can be reached, then try again", err)
	}
	switch {
	case strings.HasPrefix(pg.Code, "53"):
		return core.Errorf(core.CodeStoreFailed,
			"PostgreSQL is out of disk space, memory or connections: %w; give it some and try again", err)
	case strings.HasPrefix(pg.Code, "28"), pg.Code == "42501", pg.Code == "3D000":
		return core.Errorf(core.CodeStoreFailed,
			"PostgreSQL refuses: %w; check the user, its rights and the database's name in the address", err)
	case strings.HasPrefix(pg.Code, "22"):
		return core.Errorf(core.CodeInvalidArguments, "cannot be stored: %w", err)
	case strings.HasPrefix(pg.Code, "42"):
		return core.Errorf(core.CodeStoreFailed,
			"the database does not have what pml expects in it: %w; restore it from a backup, or use another", err)
	}
	return core.Errorf(core.CodeStoreFailed, "PostgreSQL failed: %w; try again, and if that does not help look at its log", err)
}

// errPatience is the cause of a context that ended because a store gave up.
var errPatience = errors.New("the store gave up")

func cancelled(ctx context.Context) error {
	if context.Cause(ctx) == errPatience { //nolint:errorlint // it is never wrapped
		return core.Errorf(core.CodeStoreFailed,
			"PostgreSQL could not be reached for so long that a step was given up; it may have been kept all the same; see that the database runs, then continue the run")
	}
	return core.Errorf(core.CodeCancelled, "stopped waiting for the store: %w", context.Cause(ctx))
}

func closed() error {
	return core.Errorf(core.CodeStoreFailed, "the store is closed: pml is stopping")
}
