package postgres

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Runners stand in a ring by id. Each waits for the lock of the next one that
// lives, and so has it the moment that one's connection ends. Then it notes that
// it is missing, and looks again when its time to come back is over; a process of
// the same machine that is gone needs none.

// patienceSQL ends each wait for a lock after a while: the ring may have
// changed, and a wait keeps the database from tidying up.
const (
	patience    = 5 * time.Second
	patienceSQL = "SET lock_timeout = '5s'"
)

// ringPause is the wait before the ring is looked at again when there is nobody
// to wait for, or somebody lives without holding a lock.
const ringPause = 500 * time.Millisecond

// firstMissing and longestMissing are the waits before it is seen whether a runner
// that is missing has come back, or its process has ended: a process that is killed
// gives its connections back shortly before it counts as ended.
const (
	firstMissing   = 2 * time.Millisecond
	longestMissing = 50 * time.Millisecond
)

// follow waits for the deaths of others until the runner closes.
func (r *runner) follow(ctx context.Context) {
	known := map[string]bool{} // who lived at the last look
	for ctx.Err() == nil {
		conn, err := pgx.ConnectConfig(ctx, r.store.pool.Config().ConnConfig)
		if err == nil {
			if err = brieflyExec(ctx, conn, patienceSQL); err == nil {
				err = r.ring(ctx, conn, known)
			}
			shut(conn)
		}
		if ctx.Err() == nil && !errors.Is(err, errRing) {
			pause(ctx, longestWait)
		}
	}
}

// errRing says that the ring has changed while a lock was waited for.
var errRing = errors.New("the set of runners has changed")

type peer struct {
	ID      string
	Lock    int64
	PID     int32
	Missing bool
}

// ring waits for one peer after the other. When one that was known to live lives
// no more, whoever watches the store is woken: its runs are orphans.
func (r *runner) ring(ctx context.Context, conn *pgx.Conn, known map[string]bool) error {
	missing := firstMissing
	for {
		peers, err := r.peers(ctx, conn)
		if err != nil {
			return err
		}
		if died(known, peers) {
			r.store.watch.committed(false)
			signal(r.gone)
		}
		if next, ok := toAwait(peers); ok {
			missing = firstMissing
			if err := r.await(ctx, conn, next); err != nil {
				return err
			}
			continue
		}
		wait := ringPause
		if len(peers) > 0 && peers[0].Missing {
			wait, missing = missing, min(2*missing, longestMissing)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.store.watch.runners:
		case <-time.After(wait):
		}
	}
}

// died brings known up to date and reports whether one of them lives no more.
func died(known map[string]bool, living []peer) bool {
	before := maps.Clone(known)
	clear(known)
	for _, p := range living {
		known[p.ID] = true
		delete(before, p.ID)
	}
	return len(before) > 0
}

// toAwait is the peer whose lock is waited for: none while one is missing, or
// when none holds a lock.
func toAwait(peers []peer) (peer, bool) {
	if len(peers) == 0 || peers[0].Missing || peers[0].PID == 0 {
		return peer{}, false
	}
	return peers[0], true
}

const (
	// noteSQL notes since when runners are missing.
	noteSQL = `UPDATE runners SET missing_since = clock_timestamp() WHERE missing_since IS NULL AND id IN (
		SELECT r.id FROM runners r WHERE r.id IN (SELECT s.id FROM standing_runners s WHERE s.missing AND s.missing_since IS NULL)
		FOR UPDATE SKIP LOCKED)`
	peersSQL = "SELECT id, lock, pid, missing FROM living_runners WHERE id <> $1 ORDER BY NOT missing, pid = 0, id < $1, id"
)

// peers lists the others that live: those that are missing, then the next one
// in the ring.
func (r *runner) peers(ctx context.Context, conn *pgx.Conn) ([]peer, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptLimit)
	defer cancel()
	if _, err := conn.Exec(ctx, noteSQL); err != nil {
		return nil, err
	}
	if err := r.buryGone(ctx, conn); err != nil {
		return nil, err
	}
	found, err := conn.Query(ctx, peersSQL, r.id)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, pgx.RowToStructByPos[peer])
}

// await waits for the lock of a peer and gives it back, for a while at most.
func (r *runner) await(ctx context.Context, conn *pgx.Conn, p peer) error {
	wait, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit, stop := context.WithTimeout(wait, patience+attemptLimit)
	defer stop()
	go func() {
		select {
		case <-wait.Done():
		case <-r.store.watch.runners:
			cancel(errRing)
		}
	}()
	_, err := conn.Exec(limit, "SELECT pg_advisory_lock_shared($1)", p.Lock)
	if err == nil {
		_, err = conn.Exec(limit, "SELECT pg_advisory_unlock_shared($1)", p.Lock)
		return err
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "55P03" { // lock_timeout
		return nil
	}
	if errors.Is(context.Cause(wait), errRing) {
		return errRing
	}
	return err
}
