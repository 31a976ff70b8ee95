//go:build unix

package server_test

import (
	"context"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core/skiptest"
)

// postgresServer is the address of the PostgreSQL that tests use.
func postgresServer() string {
	if u := os.Getenv("PML_TEST_POSTGRES"); u != "" {
		return u
	}
	return "postgres://postgres@127.0.0.1:5432/postgres"
}

// shared is where several servers of one test keep their runs, as a flag of serve and its value: a PostgreSQL database of its own,
// or an installation of its own in the namespace of Temporal that PML_TEST_ENGINE names. That is prepared, and
// pml-temporal lies in PATH, beside a link to pml; docs/temporal.md says which tests are about it.
func shared(t testing.TB) []string {
	t.Helper()
	if at := os.Getenv("PML_TEST_ENGINE"); at != "" {
		return []string{"--engine", at + "?name=e2e-" + uuid.NewString() + "&blobs=" + t.TempDir()}
	}
	return []string{"--store", database(t)}
}

// keepShared has the servers of a machine keep their runs there without being told.
func keepShared(m *pmltest.Machine) {
	m.T.Helper()
	at := shared(m.T)
	m.Setenv(map[string]string{"--store": "PML_STORE", "--engine": "PML_ENGINE"}[at[0]], at[1])
}

// database makes a database for one test and returns its address. Without a
// PostgreSQL the test is skipped, see missing.
func database(t testing.TB) string {
	t.Helper()
	skiptest.Long(t, "runs a whole server on PostgreSQL; store/postgres has its own tests")
	ctx, cancel := context.WithTimeout(context.Background(), pmltest.Patience)
	defer cancel()
	admin, err := pgx.Connect(ctx, postgresServer())
	if err != nil {
		skiptest.Missing(t, "needs PostgreSQL (PML_TEST_POSTGRES names one): "+err.Error())
	}
	name := "pml_e2e_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	if _, err := admin.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), pmltest.Patience)
		defer cancel()
		if _, err := admin.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
		_ = admin.Close(ctx)
	})
	u, err := url.Parse(postgresServer())
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}
