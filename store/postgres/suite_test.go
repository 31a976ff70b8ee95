package postgres_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/core/skiptest"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/postgres"
	"github.com/casys-ai/pml/store/storetest"
)

// hung is longer than anything takes on the busiest machine with the slowest disk.
const hung = 2 * time.Minute

// TestMain runs some tests beside each other, which mostly wait for the server; it accepts 100 connections.
func TestMain(m *testing.M) {
	enginetest.Child()
	skiptest.AtOnce(8)
	code := m.Run()
	if err := dropTemplate(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func newID() core.ID { return core.ID(uuid.NewString()) }

type wall struct{}

func (wall) Now() time.Time { return time.Now() }

// server is the address of the PostgreSQL that tests use.
func server() string {
	if u := os.Getenv("PML_TEST_POSTGRES"); u != "" {
		return u
	}
	return "postgres://postgres@127.0.0.1:5432/postgres"
}

// admin are connections to the server that the tests share: a server forks for each, which is slow on some machines.
var admin = sync.OnceValues(func() (*pgxpool.Pool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), hung)
	defer cancel()
	pool, err := pgxpool.New(ctx, server())
	if err != nil {
		return nil, err
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
})

// requirePostgres returns connections to the server. Without one the test is skipped, or
// fails when PML_TEST_REQUIRE=all says that nothing may be skipped.
func requirePostgres(t testing.TB) *pgxpool.Pool {
	t.Helper()
	pool, err := admin()
	if err != nil {
		skiptest.Missing(t, "needs PostgreSQL (PML_TEST_POSTGRES names one): "+err.Error())
	}
	return pool
}

// template is a database with the schema, of which each test gets a copy: to make a schema takes a quarter of a second.
var template struct {
	once sync.Once
	name string
	err  error
}

func makeTemplate(admin *pgxpool.Pool) (string, error) {
	template.once.Do(func() {
		template.name = newName()
		if _, template.err = admin.Exec(context.Background(), "CREATE DATABASE "+template.name); template.err != nil {
			return
		}
		s, err := openUnclosed(addressOf(template.name), wall{})
		if err == nil {
			err = s.Close()
		}
		template.err = err
	})
	return template.name, template.err
}

func dropTemplate() error {
	if template.name == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), hung)
	defer cancel()
	pool, err := admin()
	if err != nil {
		return err
	}
	defer pool.Close()
	_, err = pool.Exec(ctx, "DROP DATABASE IF EXISTS "+template.name+" WITH (FORCE)")
	return err
}

func newName() string { return "pml_test_" + strings.ReplaceAll(uuid.NewString(), "-", "") }

// addressOf is the address of a database of the server.
func addressOf(name string) string {
	u, err := url.Parse(server())
	if err != nil {
		panic("PML_TEST_POSTGRES is not an address: " + err.Error())
	}
	u.Path = "/" + name
	return u.String()
}

// database makes a database with the schema for one test and returns its address.
func database(t testing.TB) string {
	t.Helper()
	admin := requirePostgres(t)
	from, err := makeTemplate(admin)
	if err != nil {
		t.Fatal(err)
	}
	return databaseFrom(t, admin, from)
}

// emptyDatabase is [database] without the schema.
func emptyDatabase(t testing.TB) string {
	t.Helper()
	return databaseFrom(t, requirePostgres(t), "template1")
}

func databaseFrom(t testing.TB, admin *pgxpool.Pool, from string) string {
	t.Helper()
	name := newName()
	if _, err := admin.Exec(context.Background(), "CREATE DATABASE "+name+" TEMPLATE "+from); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := admin.Exec(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	return addressOf(name)
}

// open opens a store and closes it after the test.
func open(t testing.TB, address string, clock core.Clock, change ...func(*postgres.Options)) *postgres.Store {
	t.Helper()
	s, err := openUnclosed(address, clock, change...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func openUnclosed(address string, clock core.Clock, change ...func(*postgres.Options)) (*postgres.Store, error) {
	opts := postgres.Options{URL: address, Clock: clock, NewID: newID}
	for _, f := range change {
		f(&opts)
	}
	return postgres.Open(context.Background(), opts)
}

// connect returns a bare connection to a database.
func connect(t testing.TB, address string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// fewConnections bounds those of a store: other packages, and other runs of these tests,
// have the same server.
func fewConnections(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("pool_max_conns", "4")
	u.RawQuery = q.Encode()
	return u.String()
}

func TestStore(t *testing.T) {
	t.Parallel()
	requirePostgres(t)
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		address, clock := fewConnections(t, database(t)), storetest.NewClock()
		s := open(t, address, clock)
		return storetest.Harness{
			Store:      s,
			Clock:      clock,
			Reopen:     func(t *testing.T) store.Store { return open(t, address, clock) },
			FailCommit: func(at storetest.FailPoint) { s.FailCommit(at == storetest.AfterCommit) },
		}
	})
}

func newRun(runner string) core.Run {
	now := time.Now().UTC()
	return core.Run{
		ID: newID(), Side: core.SideServer, Workspace: "/w", Kind: core.KindDAG, State: core.RunRunning, CreatedAt: now,
		UpdatedAt: now, Runner: runner, Epoch: 1, DAGVersion: 1, RequestedBy: core.Actor{Who: "ann", Via: core.ViaHTTP},
	}
}

func newRecord(seq int64) core.Record {
	return core.Record{Seq: seq, Kind: core.RecordSettled, CallID: fmt.Sprintf("t%d", seq), Tool: "fs:read",
		Outcome: core.OutcomeSuccess, Args: []byte(`{"n":1}`), Result: []byte(`"ok"`), At: time.Now().UTC()}
}

func newApproval(run core.ID) core.Approval {
	return core.Approval{ID: newID(), RunID: run, Workspace: "/w", Side: core.SideServer, Type: core.ApproveTool, Subject: "c1",
		Tool: "fs:write", Risk: core.RiskMedium, Context: []byte(`{"tool":"fs:write"}`), Digest: "sha256:aa",
		State: core.ApprovalOpen, CreatedAt: time.Now().UTC()}
}
