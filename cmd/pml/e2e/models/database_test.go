//go:build unix

package models_test

import (
	"cmp"
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

// ownDatabase makes a database of PostgreSQL for one test and returns its address.
func ownDatabase(t testing.TB) string {
	t.Helper()
	skiptest.Long(t, "runs whole servers on PostgreSQL")
	at, err := url.Parse(cmp.Or(os.Getenv("PML_TEST_POSTGRES"), "postgres://postgres@127.0.0.1:5432/postgres"))
	if err != nil {
		t.Fatal(err)
	}
	name := "pml_e2e_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	admin := func(sql string) error {
		ctx, cancel := context.WithTimeout(context.Background(), pmltest.Patience)
		defer cancel()
		conn, err := pgx.Connect(ctx, at.String())
		if err != nil {
			skiptest.Missing(t, "needs PostgreSQL (PML_TEST_POSTGRES names one): "+err.Error())
		}
		_, err = conn.Exec(ctx, sql)
		_ = conn.Close(ctx)
		return err
	}
	if err := admin("CREATE DATABASE " + name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := admin("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	own := *at
	own.Path = "/" + name
	return own.String()
}
