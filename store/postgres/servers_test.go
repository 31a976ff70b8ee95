package postgres_test

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/postgres"
)

// TestOpen_AtOnce lets several servers set one database up.
func TestOpen_AtOnce(t *testing.T) {
	t.Parallel()
	address := emptyDatabase(t)
	stores := make([]*postgres.Store, 4)
	var wg sync.WaitGroup
	for i := range stores {
		wg.Go(func() {
			s, err := postgres.Open(t.Context(), postgres.Options{URL: address, Clock: wall{}, NewID: newID})
			if err != nil {
				t.Error(err)
				return
			}
			stores[i] = s
		})
	}
	wg.Wait()
	for _, s := range stores {
		if s == nil {
			continue
		}
		if err := s.Commit(t.Context(), store.Step{Run: newRun("r"), Create: true}); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestOpen_Newer(t *testing.T) {
	t.Parallel()
	address := database(t)
	if err := open(t, address, wall{}).Close(); err != nil {
		t.Fatal(err)
	}
	conn := connect(t, address)
	if _, err := conn.Exec(t.Context(), "INSERT INTO pml_migrations (version_id, is_applied) VALUES ($1, true)", postgres.FormatVersion+1); err != nil {
		t.Fatal(err)
	}
	_, err := postgres.Open(t.Context(), postgres.Options{URL: address, Clock: wall{}, NewID: newID})
	if core.CodeOf(err) != core.CodeStoreNewer {
		t.Errorf("%v", err)
	}
}

// TestOpen_Errors: they say what to do and never repeat a password.
func TestOpen_Errors(t *testing.T) {
	t.Parallel()
	requirePostgres(t)
	missing, err := url.Parse(server())
	if err != nil {
		t.Fatal(err)
	}
	missing.Path = "/no_such_pml_database"
	for address, want := range map[string]core.Code{
		"":                                   core.CodeInternal,
		"postgres://u:geheim@h:port/db":      core.CodeInvalidConfig,
		"postgres://u:geheim@127.0.0.1:1/db": core.CodeStoreFailed,
		missing.String():                     core.CodeStoreFailed,
	} {
		_, err := postgres.Open(t.Context(), postgres.Options{URL: address, Clock: wall{}, NewID: newID})
		if core.CodeOf(err) != want || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%v", err)
		}
	}
}

// TestEvents_Gapless: while two stores write, a reader that asks for what comes
// after the last number it has sees every number, and none too late.
func TestEvents_Gapless(t *testing.T) {
	t.Parallel()
	address := database(t)
	stores := []*postgres.Store{open(t, address, wall{}), open(t, address, wall{})}
	const writers, steps = 8, 40
	reader := open(t, address, wall{})
	wake, err := reader.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			s, run := stores[i%2], newRun("r")
			if err := s.Commit(t.Context(), store.Step{Run: run, Create: true}); err != nil {
				t.Error(err)
			}
			for n := range steps {
				step := layerStep(run, int64(n), 1)
				if n%4 == i%4 { // the long way
					step.Open = []core.Approval{newApproval(run.ID)}
				}
				if err := s.Commit(t.Context(), step); err != nil {
					t.Error(err)
				}
			}
		})
	}
	last := int64(0)
	for last < writers*steps {
		select {
		case <-wake:
		case <-time.After(hung):
			t.Fatalf("nothing came after event %d", last)
		}
		es, err := reader.Events(t.Context(), store.EventFilter{After: last})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range es {
			if e.Seq != last+1 {
				t.Fatalf("event %d came after %d", e.Seq, last)
			}
			last = e.Seq
		}
	}
	wg.Wait()
}

// peerOf registers a runner as another process would: its connection is the
// test's to end. Its lease is long, so that no test depends on how fast it is.
func peerOf(t *testing.T, address, id string) *pgx.Conn {
	t.Helper()
	conn := connect(t, address)
	if _, err := conn.Exec(t.Context(), "SELECT pg_advisory_lock($1)", postgres.LockOf(id)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `INSERT INTO runners SELECT $1, $2, pg_backend_pid(), pml_boot(), clock_timestamp() + interval '1 hour'`,
		id, postgres.LockOf(id)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "NOTIFY pml_runners"); err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestRunners_Death: who watches is told of the death of another process at
// once, and finds its runs.
func TestRunners_Death(t *testing.T) {
	t.Parallel()
	address := database(t)
	s := open(t, address, wall{})
	me, err := s.Register(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		id := string(newID())
		conn := peerOf(t, address, id)
		run := newRun(id)
		if err := s.Commit(t.Context(), store.Step{Run: run, Create: true}); err != nil {
			t.Fatal(err)
		}
		if ids, err := s.Orphans(t.Context(), me.ID(), 0); err != nil || len(ids) != 0 {
			t.Fatalf("while it lives: %v, %v", ids, err)
		}
		waitFor(t, address, "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))")
		wake, err := s.WatchOthers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		died := time.Now()
		_ = conn.Close(context.Background())
		var ids []core.ID
		for late := time.After(hung); err == nil && len(ids) == 0; {
			select {
			case <-wake: // of the death, or because the watch had to connect again
			case <-late:
				t.Fatal("nobody was told")
			}
			ids, err = s.Orphans(t.Context(), me.ID(), 0)
		}
		t.Logf("told after %s", time.Since(died))
		if err != nil || !slices.Equal(ids, []core.ID{run.ID}) {
			t.Fatalf("orphans: %v, %v", ids, err)
		}
		got, err := s.Claim(t.Context(), run.ID, me.ID())
		if err != nil || got.Epoch != 2 {
			t.Fatalf("epoch %d, %v", got.Epoch, err)
		}
		got.State = core.RunComplete
		if err := s.Commit(t.Context(), store.Step{Run: got}); err != nil {
			t.Fatal(err)
		}
	}
}

// waitFor polls until a statement gives true.
func waitFor(t *testing.T, address, sql string, args ...any) {
	t.Helper()
	conn := connect(t, address)
	deadline := time.After(hung)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		var ok bool
		if err := conn.QueryRow(t.Context(), sql, args...).Scan(&ok); err != nil {
			t.Fatal(err)
		}
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("it never came: %s", sql)
		}
	}
}

// TestRunners_Reconnect: a runner whose connection breaks takes its lock again
// and lives on; one whose row is gone is lost.
func TestRunners_Reconnect(t *testing.T) {
	t.Parallel()
	address := database(t)
	s, other := open(t, address, wall{}), open(t, address, wall{})
	r, err := s.Register(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn := connect(t, address)
	var pid int
	if err := conn.QueryRow(t.Context(), "SELECT pid FROM runners WHERE id = $1", r.ID()).Scan(&pid); err != nil || pid == 0 {
		t.Fatal(pid, err)
	}
	// A connection of before that nobody has ended gets the lock first.
	stale := connect(t, address)
	queued := stale.PgConn().PID()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = stale.Exec(context.Background(), "SELECT pg_advisory_lock($1)", postgres.LockOf(r.ID()))
		_, _ = stale.Exec(context.Background(), "SELECT pg_sleep(20)")
	}()
	waitFor(t, address, "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE pid = $1 AND NOT granted)", queued)
	if _, err := conn.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM runners WHERE id = $1", r.ID()); err != nil {
		t.Fatal(err)
	}
	waitFor(t, address, "SELECT EXISTS (SELECT 1 FROM living_runners WHERE id = $1 AND pid <> $2)", r.ID(), pid)
	<-gone
	select {
	case <-r.Lost():
		t.Fatal("it is lost")
	default:
	}
	if _, err := conn.Exec(t.Context(), "WITH gone AS (DELETE FROM runners WHERE id = $1 RETURNING pid) SELECT pg_terminate_backend(pid) FROM gone", r.ID()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-r.Lost():
	case <-time.After(hung):
		t.Fatal("it is not lost")
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// TestRunners_Lease: where the lock says nothing, the lease does, with a second
// of grace; a lease that is over ends a runner that holds its lock; one whose
// lock is free has a second from when that was noticed.
func TestRunners_Lease(t *testing.T) {
	t.Parallel()
	address := database(t)
	s := open(t, address, wall{})
	conn := connect(t, address)
	if _, err := conn.Exec(t.Context(), "INSERT INTO boots SELECT true, pg_postmaster_start_time()"); err != nil {
		t.Fatal(err)
	}
	const seen = "clock_timestamp() + interval "
	for name, c := range map[string]struct {
		pid, boot, lease, missing string
		want                      bool
	}{
		"NoSessions":     {"0", "pml_boot()", "1 hour", "NULL", true},
		"NoSessionsLate": {"0", "pml_boot()", "-2 seconds", "NULL", false},
		"NoLock":         {"1", "pml_boot()", "1 hour", "NULL", true},
		"Missing":        {"1", "pml_boot()", "1 hour", seen + "'1 hour'", true},
		"MissingLate":    {"1", "pml_boot()", "1 hour", seen + "'-2 seconds'", false},
		"NoLockLate":     {"1", "pml_boot()", "-2 seconds", "NULL", false},
		"Restarted":      {"1", "pml_boot() - interval '1 hour'", "1 hour", seen + "'-2 seconds'", true},
		"RestartedLate":  {"1", "pml_boot() - interval '1 hour'", "-2 seconds", "NULL", false},
	} {
		id := string(newID())
		if _, err := conn.Exec(t.Context(), "INSERT INTO runners SELECT $1, 1, "+c.pid+", "+c.boot+
			", clock_timestamp() + interval '"+c.lease+"', "+c.missing, id); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Alive(t.Context(), id); err != nil || got != c.want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	id := string(newID())
	peerOf(t, address, id)
	if _, err := conn.Exec(t.Context(), "UPDATE runners SET lease_until = clock_timestamp() - interval '2 seconds' WHERE id = $1", id); err != nil {
		t.Fatal(err)
	}
	if alive, err := s.Alive(t.Context(), id); alive || err != nil {
		t.Errorf("a frozen process lives: %v, %v", alive, err)
	}
}

// patient lets runners that are missing in a database have an hour to come back,
// so that no test depends on how fast they are.
func patient(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), `CREATE FUNCTION patient() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN NEW.missing_since := clock_timestamp() + interval '1 hour'; RETURN NEW; END $$;
		CREATE TRIGGER patient BEFORE UPDATE ON runners FOR EACH ROW
			WHEN (OLD.missing_since IS NULL AND NEW.missing_since IS NOT NULL) EXECUTE FUNCTION patient()`); err != nil {
		t.Fatal(err)
	}
}

// TestRunners_BrokenConnection: a runner whose connection breaks again and again
// keeps its runs.
func TestRunners_BrokenConnection(t *testing.T) {
	t.Parallel()
	address := database(t)
	s, other := open(t, address, wall{}), open(t, address, wall{})
	conn := connect(t, address)
	patient(t, conn)
	r, err := s.Register(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rival, err := other.Register(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	run := newRun(r.ID())
	if err := s.Commit(t.Context(), store.Step{Run: run, Create: true}); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		var pid int
		if err := conn.QueryRow(t.Context(), "SELECT pid FROM runners WHERE id = $1", r.ID()).Scan(&pid); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), "SELECT pg_terminate_backend($1)", pid); err != nil {
			t.Fatal(err)
		}
		for back := false; !back; {
			if ids, err := other.Orphans(t.Context(), rival.ID(), 0); err != nil || len(ids) != 0 {
				t.Fatalf("orphans: %v, %v", ids, err)
			}
			if _, err := other.Claim(t.Context(), run.ID, rival.ID()); core.CodeOf(err) != core.CodeFenced {
				t.Fatalf("its run was taken: %v", err)
			}
			if err := conn.QueryRow(t.Context(), "SELECT pid <> $2 FROM runners WHERE id = $1", r.ID(), pid).Scan(&back); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Commit(t.Context(), store.Step{Run: run}); err != nil {
		t.Error(err)
	}
}

// TestRunners_Missing: a runner whose lock is free is noted as missing; it lives
// when it is back in time, and is dead afterwards.
func TestRunners_Missing(t *testing.T) {
	t.Parallel()
	address := database(t)
	s := open(t, address, wall{})
	conn := connect(t, address)
	patient(t, conn)
	me, err := s.Register(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	id := string(newID())
	run := newRun(id)
	if err := s.Commit(t.Context(), store.Step{Run: run, Create: true}); err != nil {
		t.Fatal(err)
	}
	_ = peerOf(t, address, id).Close(context.Background())
	const missing = "SELECT EXISTS (SELECT 1 FROM runners WHERE id = $1 AND missing_since IS NOT NULL)"
	waitFor(t, address, missing, id)

	// It comes back while its run is being claimed.
	back := connect(t, address)
	if _, err := back.Exec(t.Context(), "SELECT pg_advisory_lock($1)", postgres.LockOf(id)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "UPDATE runners SET missing_since = clock_timestamp() - interval '2 seconds', pid = 1 WHERE id = $1", id); err != nil {
		t.Fatal(err)
	}
	tx, err := back.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "UPDATE runners SET missing_since = NULL, pid = pg_backend_pid() WHERE id = $1", id); err != nil {
		t.Fatal(err)
	}
	claimed := make(chan error, 1)
	go func() {
		_, err := s.Claim(t.Context(), run.ID, me.ID())
		claimed <- err
	}()
	waitFor(t, address, `SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
		AND query LIKE '%runners%' AND query NOT LIKE '%advisory%')`)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-claimed; core.CodeOf(err) != core.CodeFenced {
		t.Fatalf("the run of one that is back was taken: %v", err)
	}

	wake, err := s.WatchOthers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// It has been seen alive again: the ring announces a death once.
	waitFor(t, address, `SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
		AND query LIKE '%advisory_lock_shared%')`)
	_ = back.Close(context.Background())
	waitFor(t, address, missing, id)
	if _, err := conn.Exec(t.Context(), "UPDATE runners SET missing_since = clock_timestamp() - interval '2 seconds' WHERE id = $1", id); err != nil {
		t.Fatal(err)
	}
	for {
		select {
		case <-wake: // also for what came before
		case <-time.After(hung):
			t.Fatal("nobody was told of its death")
		}
		if _, err := s.Claim(t.Context(), run.ID, me.ID()); err == nil {
			return
		} else if core.CodeOf(err) != core.CodeFenced {
			t.Fatal(err)
		}
	}
}

// TestRunners_Leave: who ends in order is dead at once, and the others are told.
func TestRunners_Leave(t *testing.T) {
	t.Parallel()
	address := database(t)
	s, other := open(t, address, wall{}), open(t, address, wall{})
	patient(t, connect(t, address))
	standing, err := s.Register(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		r, err := other.Register(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		waitFor(t, address, "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND (classid::bigint << 32 | objid::bigint) = $1)", postgres.LockOf(r.ID()))
		ctx, stop := context.WithCancel(t.Context())
		wake, err := s.WatchOthers(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if alive, err := s.Alive(t.Context(), r.ID()); alive || err != nil {
			t.Errorf("it lives: %v, %v", alive, err)
		}
		late := time.After(hung)
		for name, told := range map[string]<-chan struct{}{"who watches": wake, "the other runner": standing.Gone()} {
			select {
			case <-told:
			case <-late:
				t.Fatalf("%s was not told", name)
			}
		}
		stop()
	}
}

// TestRunners_Crash: when the database has recovered from a crash, which leaves
// no lock and an empty table of boots, everybody has the time of a lease.
func TestRunners_Crash(t *testing.T) {
	t.Parallel()
	address := database(t)
	s := open(t, address, wall{})
	if _, err := s.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	id := string(newID())
	peer := peerOf(t, address, id)
	conn := connect(t, address)
	if _, err := conn.Exec(t.Context(), "UPDATE runners SET lease_until = clock_timestamp() + interval '1 hour' WHERE id = $1", id); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "TRUNCATE boots"); err != nil {
		t.Fatal(err)
	}
	_ = peer.Close(context.Background())
	const standing = "SELECT EXISTS (SELECT 1 FROM standing_runners s JOIN living_runners USING (id) WHERE id = $1 AND NOT s.missing)"
	waitFor(t, address, standing, id)
	if _, err := s.Register(t.Context()); err != nil { // notes when the database began to serve
		t.Fatal(err)
	}
	waitFor(t, address, "SELECT EXISTS (SELECT 1 FROM boots)")
	var ok bool
	if err := conn.QueryRow(t.Context(), standing, id).Scan(&ok); err != nil || !ok {
		t.Errorf("it is taken for dead: %v", err)
	}
}

// TestWatch_Reconnect: after the connection for notifications was lost everybody
// is woken, and what comes later is told again.
func TestWatch_Reconnect(t *testing.T) {
	t.Parallel()
	address := database(t)
	p, behind := through(t, address)
	s, other := open(t, behind, wall{}), open(t, address, wall{})
	wake, err := s.WatchOthers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.set(func() { p.down = true })
	run := newRun("r")
	if err := other.Commit(t.Context(), store.Step{Run: run, Create: true}); err != nil {
		t.Fatal(err)
	}
	p.set(func() { p.down = false })
	for range 2 {
		select {
		case <-wake:
		case <-time.After(hung):
			t.Fatal("nobody was told")
		}
		if err := other.Commit(t.Context(), store.Step{Run: run}); err != nil {
			t.Fatal(err)
		}
	}
}
