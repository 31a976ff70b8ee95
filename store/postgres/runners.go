package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/casys-ai/pml/store"
)

// renewal is how often a lease (of 10 s, see leaseSQL) is renewed.
const renewal = 3 * time.Second

// runner is this process's standing: a row with a lease, and a lock that a
// connection of its own holds. The lock goes with the process, at once; where
// it cannot be used, the lease runs out.
type runner struct {
	store *Store
	id    string
	lock  int64
	lost  chan struct{}
	gone  chan struct{} // another one has died

	cancel context.CancelFunc
	unhook func() bool // from the closing of the store
	done   sync.WaitGroup
	once   sync.Once
	err    error

	mu      sync.Mutex
	sure    time.Duration // until when the lease holds in any case, by Elapsed
	renewed chan struct{} // closed and replaced when sure changes
}

// lockOf is the key of a runner's advisory lock.
func lockOf(id string) int64 {
	sum := sha256.Sum256([]byte("pml runner " + id))
	return int64(binary.BigEndian.Uint64(sum[:])) //nolint:gosec // any number will do
}

const (
	leaseSQL  = "clock_timestamp() + interval '10 seconds'"
	insertRow = `INSERT INTO runners (id, lock, pid, boot, lease_until, machine, process, address)
		VALUES ($1, $2, $3, pml_boot(), ` + leaseSQL + `, $4, $5, inet_client_addr())`
	retakeRow = `UPDATE runners SET lock = $2, pid = $3, boot = pml_boot(), missing_since = NULL, lease_until = ` + leaseSQL + `,
		machine = $4, process = $5, address = inet_client_addr() WHERE id = $1`
	renewRow = `UPDATE runners SET missing_since = NULL, lease_until = ` + leaseSQL + ` WHERE id = $1`
	// bootRow notes when the database began to serve, unless somebody has.
	bootRow = `INSERT INTO boots (one, at) VALUES (true, clock_timestamp()) ON CONFLICT DO NOTHING`
	// endOld ends a connection of before that the database does not know to be
	// dead: it still holds the lock.
	endOld = `SELECT pg_terminate_backend(l.pid) FROM pg_locks l WHERE l.locktype = 'advisory' AND l.granted
		AND l.mode = 'ExclusiveLock' AND l.pid <> pg_backend_pid() AND (l.classid::bigint << 32 | l.objid::bigint) = $1
		AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`
	tidyRows = `DELETE FROM runners WHERE lease_until < clock_timestamp() - interval '1 hour'`
)

// errLost says that others have taken a runner for dead.
var errLost = errors.New("the runner's row is gone")

// Register implements store.Runners.
func (s *Store) Register(ctx context.Context) (store.Runner, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.inflight.Done()
	if err := s.watch.listening(ctx); err != nil {
		return nil, err
	}
	var conn *pgx.Conn
	r := &runner{store: s, lost: make(chan struct{}), gone: make(chan struct{}, 1), renewed: make(chan struct{})}
	err := s.patiently(ctx, briefly, func(ctx context.Context) (err error) {
		r.id = string(s.opts.NewID()) // an unknown outcome leaves a row behind that dies by itself
		r.lock = lockOf(r.id)
		conn, err = r.stand(ctx, insertRow)
		return err
	})
	if err != nil {
		return nil, err
	}
	life, cancel := context.WithCancel(s.background)
	r.cancel = cancel
	r.done.Go(func() { r.keep(life, conn) })
	r.done.Go(func() { r.follow(life) })
	s.standing.Add(1)
	r.unhook = context.AfterFunc(s.background, func() { _ = r.Close() })
	return r, nil
}

// stand connects, takes the lock and writes the row, and tells the others.
func (r *runner) stand(ctx context.Context, sql string) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, r.store.pool.Config().ConnConfig)
	if err != nil {
		return nil, err
	}
	if err := r.take(ctx, conn, sql); err != nil {
		shut(conn)
		return nil, err
	}
	return conn, nil
}

func (r *runner) take(ctx context.Context, conn *pgx.Conn, sql string) error {
	var pid int32
	if _, err := conn.Exec(ctx, endOld, r.lock); err != nil {
		return err
	}
	// Whoever waited for this lock has it for a moment when it was lost.
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", r.lock); err != nil {
		return err
	}
	if err := conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		return err
	}
	if uint32(pid) != conn.PgConn().PID() { //nolint:gosec // a pid
		pid = 0 // something between us and the database shares sessions: only the lease is proof
	}
	if _, err := conn.Exec(ctx, bootRow); err != nil {
		return err
	}
	begun := r.store.opts.Elapsed()
	tag, err := conn.Exec(ctx, sql, r.id, r.lock, pid, machine(), os.Getpid())
	if err != nil {
		return err
	}
	if tag.RowsAffected() == 0 {
		return errLost
	}
	r.renewedAt(begun)
	if _, err := conn.Exec(ctx, tidyRows); err != nil {
		return err
	}
	if err := r.buryGone(ctx, conn); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "SELECT pg_notify($1, $2)", runnerChannel, r.id)
	return err
}

// keep renews the lease until the runner closes or is lost. It notices a lost
// connection at once and takes lock and lease again.
func (r *runner) keep(ctx context.Context, conn *pgx.Conn) {
	defer func() {
		if conn != nil {
			r.resign(conn)
		}
	}()
	for ctx.Err() == nil {
		err := r.renew(ctx, conn)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !errors.Is(err, errLost) {
			r.store.opts.Logger.Warn("a runner lost its connection; connecting again", "runner", r.id, "error", err)
			r.doubt() // with the connection goes the lock
			shut(conn)
			conn, err = r.retake(ctx)
		}
		if errors.Is(err, errLost) {
			r.store.opts.Logger.Warn("another process took this runner for dead; it registers anew", "runner", r.id)
			close(r.lost)
			return
		}
	}
}

// renew renews the lease once, after its time or when the connection fails.
func (r *runner) renew(ctx context.Context, conn *pgx.Conn) error {
	limit, cancel := context.WithTimeout(ctx, renewal)
	_, err := conn.WaitForNotification(limit)
	due := limit.Err() != nil
	cancel()
	if !due {
		return err
	}
	limit, cancel = context.WithTimeout(ctx, renewal)
	defer cancel()
	begun := r.store.opts.Elapsed()
	tag, err := conn.Exec(limit, renewRow, r.id)
	switch {
	case err != nil:
		return err
	case tag.RowsAffected() == 0:
		return errLost
	}
	r.renewedAt(begun)
	return nil
}

func (r *runner) retake(ctx context.Context) (*pgx.Conn, error) {
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		limit, cancel := context.WithTimeout(ctx, attemptLimit)
		conn, err := r.stand(limit, retakeRow)
		cancel()
		if err == nil || errors.Is(err, errLost) || ctx.Err() != nil {
			return conn, err
		}
		pause(ctx, wait)
	}
}

// resign gives row and lock back.
func (r *runner) resign(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), renewal)
	defer cancel()
	if !conn.IsClosed() {
		_, err := conn.Exec(ctx, "DELETE FROM runners WHERE id = $1", r.id)
		if err == nil {
			_, err = conn.Exec(ctx, "SELECT pg_notify($1, $2)", runnerChannel, r.id)
		}
		if err != nil {
			r.err = failure(err)
		}
	}
	_ = conn.Close(ctx)
}

// ID implements store.Runner.
func (r *runner) ID() string { return r.id }

// Lost implements store.Runner: others claimed what it ran.
func (r *runner) Lost() <-chan struct{} { return r.lost }

// Gone implements store.Runner.
func (r *runner) Gone() <-chan struct{} { return r.gone }

// Close implements store.Runner: from then on the runner is dead.
func (r *runner) Close() error {
	r.once.Do(func() {
		r.unhook()
		r.cancel()
		r.done.Wait()
		r.store.standing.Done()
	})
	return r.err
}

// Alive implements store.Runners.
func (s *Store) Alive(ctx context.Context, runner string) (bool, error) {
	alive := false
	err := s.read(ctx, func(ctx context.Context) error {
		return s.pool.QueryRow(ctx, aliveSQL, clean(runner)).Scan(&alive)
	})
	return alive, err
}

const aliveSQL = "SELECT EXISTS (SELECT 1 FROM living_runners WHERE id = $1)"

func (t *txn) alive(runner string) (alive bool, err error) {
	if runner == "" {
		return false, nil
	}
	err = t.read(query{aliveSQL, []any{runner}, func(row pgx.Row) error { return row.Scan(&alive) }})
	return alive, err
}
