// Package postgres keeps runs in PostgreSQL, for any number of servers that work
// on one database.
//
// There are two ways to write. Steps of runs take the short one: one worker drains
// what waits in this process and hands it to the database as one statement. What
// that statement does not take (approvals, decisions, an idempotency key, whatever
// stands against a step) goes the long way: a transaction in which the rules are
// applied here. Each step is marked, so that a commit that a lost connection
// left unknown is tried again without being done twice.
//
// Processes tell one another of commits by NOTIFY. A runner proves that it lives
// by a lock of its session and by a lease; another one waits for that lock, and
// so learns at once that its connection has ended, and a second later that it
// did not come back.
package postgres

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// Options say where the database is and what the store depends on.
type Options struct {
	// URL is the address, as postgres://user@host/database. pool_max_conns in it
	// bounds the connections of the pool (default 8); up to three more serve
	// notifications and the standing of a runner.
	URL   string
	Clock core.Clock
	NewID func() core.ID
	// Logger gets lost connections. Default: nothing is logged.
	Logger *slog.Logger
	// Patience is how long a commit is tried again while the database cannot be
	// reached. Default 60 s.
	Patience time.Duration
	// Elapsed is a clock that never goes back and also goes while this process is
	// stopped or the machine sleeps. Default: the system's.
	Elapsed func() time.Duration
}

// briefly is how long everything but a commit is tried again.
const briefly = 5 * time.Second

// Store is a store.Store in PostgreSQL. It is safe for concurrent use.
type Store struct {
	opts   Options
	origin string // names this store to the others
	pool   *pgxpool.Pool

	queue stepQueue
	aside chan struct{} // places for steps that are committed beside the others

	mu       sync.Mutex
	closed   bool
	inflight sync.WaitGroup

	background context.Context // ends with Close
	stop       context.CancelFunc
	standing   sync.WaitGroup // runners that have not closed
	watch      watchers
	fault      faults
}

var _ store.Store = (*Store)(nil)

// Open connects and brings the database to the present format. Two servers
// that start at once do not disturb each other.
func Open(ctx context.Context, opts Options) (*Store, error) {
	if opts.URL == "" || opts.Clock == nil || opts.NewID == nil {
		return nil, core.Errorf(core.CodeInternal, "postgres.Open needs URL, Clock and NewID")
	}
	if opts.Patience <= 0 {
		opts.Patience = 60 * time.Second
	}
	if opts.Elapsed == nil {
		opts.Elapsed = elapsed
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	config, err := poolConfig(opts.URL)
	if err != nil {
		return nil, err
	}
	if err := migrate(ctx, config.ConnConfig.Copy()); err != nil {
		return nil, failure(err)
	}
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), config)
	if err != nil {
		return nil, failure(err)
	}
	s := &Store{opts: opts, origin: string(opts.NewID()), pool: pool, queue: newStepQueue()}
	s.aside = make(chan struct{}, max(1, config.MaxConns/2))
	s.background, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.watch = watchers{store: s}
	return s, nil
}

// poolConfig reads the address. Its errors do not repeat it: it may hold a password.
func poolConfig(url string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, core.Errorf(core.CodeInvalidConfig,
			"the address of the PostgreSQL database cannot be read; it looks like postgres://user:password@host:5432/database")
	}
	if bare, err := pgx.ParseConfig(url); err == nil && bare.RuntimeParams["pool_max_conns"] == "" {
		config.MaxConns = 8
	}
	config.MinConns = 0
	config.ConnConfig.RuntimeParams["plan_cache_mode"] = "force_generic_plan"
	config.ConnConfig.RuntimeParams["enable_seqscan"] = "off"
	config.ConnConfig.RuntimeParams["enable_hashjoin"] = "off"
	config.ConnConfig.RuntimeParams["enable_mergejoin"] = "off"
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = 5 * time.Second
	}
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = "pml"
	}
	// The estimates for the system's own tables are so high that each question
	// who lives would be compiled first, for a second.
	config.ConnConfig.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		return conn.Exec(ctx, "SET jit = off; "+partingSQL).Close()
	}
	return config, nil
}

// partingSQL keeps a process that stands still in the middle of a transaction, or
// a machine that is gone without a word, from holding the others up for long:
// the database asks whether it is still there.
const partingSQL = `SET idle_in_transaction_session_timeout = '10s'; SET tcp_keepalives_idle = 5;
	SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3; SET tcp_user_timeout = '10s'`

func (s *Store) now() time.Time { return s.opts.Clock.Now().UTC().Round(0) }

// Close refuses further operations, waits for those under way and closes the
// channels of Watch. Runners that were not closed are closed. A second Close
// does nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	already := s.closed
	s.closed = true
	s.mu.Unlock()
	s.inflight.Wait()
	if already {
		return nil
	}
	s.stop()
	s.standing.Wait()
	s.watch.close()
	s.pool.Close()
	return nil
}

// enter counts an operation that is under way; leave with s.inflight.Done.
func (s *Store) enter(ctx context.Context) error {
	if ctx.Err() != nil {
		return cancelled(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return closed()
	}
	s.inflight.Add(1)
	return nil
}

// patiently calls f until it succeeds, is refused, or a time is over.
func (s *Store) patiently(ctx context.Context, patience time.Duration, f func(context.Context) error) error {
	limit, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		err := f(limit)
		if ctx.Err() != nil && err != nil {
			return cancelled(ctx)
		}
		if !passing(err) {
			return failure(err)
		}
		if limit.Err() != nil || !pause(limit, wait) {
			return failure(err)
		}
	}
}

// The waits between two tries.
const (
	firstWait   = 5 * time.Millisecond
	longestWait = 500 * time.Millisecond
)

// pause waits; false when the context ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
