package temporal_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/testsuite"

	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/core/skiptest"
	"github.com/casys-ai/pml/store/temporal"
)

func TestMain(m *testing.M) {
	enginetest.Child()
	workerMain()
	skiptest.AtOnce(4)
	code := m.Run()
	if err := enginetest.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if server.dev != nil {
		_ = server.dev.Stop()
	}
	os.Exit(code)
}

// server is the Temporal that all tests use: one in memory, of the program that
// PML_TEST_TEMPORAL names, or that is called temporal.
var server struct {
	once sync.Once
	dev  *testsuite.DevServer
	err  error
}

// command is Temporal's program. Without it the test is skipped, or fails when
// PML_TEST_REQUIRE=all says that nothing may be skipped.
func command(t testing.TB) string {
	t.Helper()
	program := os.Getenv("PML_TEST_TEMPORAL")
	if program == "" {
		var err error
		if program, err = exec.LookPath("temporal"); err != nil {
			skiptest.Missing(t, "needs Temporal's command (PML_TEST_TEMPORAL names one; docs/temporal.md says how it is built)")
		}
	}
	return program
}

// address is where Temporal is.
func address(t testing.TB) string {
	t.Helper()
	program := command(t)
	server.once.Do(func() {
		server.dev, server.err = testsuite.StartDevServer(context.Background(), testsuite.DevServerOptions{
			ExistingPath: program, LogLevel: "error", Stdout: io.Discard, Stderr: os.Stderr, ClientOptions: &client.Options{Logger: silent{}},
		})
		if server.err == nil {
			server.err = temporal.Prepare(context.Background(), temporal.Options{Address: server.dev.FrontendHostPort(), Namespace: "default", Logger: slog.New(slog.DiscardHandler)})
		}
	})
	if server.err != nil {
		t.Fatal(server.err)
	}
	return server.dev.FrontendHostPort()
}

type silent struct{}

func (silent) Debug(string, ...any) {}
func (silent) Info(string, ...any)  {}
func (silent) Warn(string, ...any)  {}
func (silent) Error(string, ...any) {}

type wall struct{}

func (wall) Now() time.Time { return time.Now() }

// options are those of an installation of its own in a namespace that all tests share.
func options(t testing.TB) temporal.Options {
	return temporal.Options{
		Address: address(t), Namespace: "default", Name: fmt.Sprint("pml-", enginetest.NewID().Short()), Blobs: temporal.Folder(t.TempDir()),
		Clock: wall{}, NewID: enginetest.NewID, Keys: suiteKeys(),
	}
}

// suiteKeys are those with which PML_TEST_TEMPORAL_KEYS=1 runs the tests: otherwise what they keep is in clear, but where a test
// says so.
func suiteKeys() temporal.Keys {
	if os.Getenv("PML_TEST_TEMPORAL_KEYS") == "" {
		return nil
	}
	return keys("1")
}

// keys are keys by their ids.
func keys(ids ...string) (ks temporal.Keys) {
	for _, id := range ids {
		ks = append(ks, temporal.Key{ID: id, Secret: sha256.Sum256([]byte("key " + id))})
	}
	return ks
}

func open(t testing.TB, opts temporal.Options) *temporal.Store {
	t.Helper()
	s, err := temporal.Open(context.Background(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// inTemporal are surroundings of their own.
func inTemporal(t *testing.T) func() enginetest.Surroundings {
	opts := options(t)
	return func() enginetest.Surroundings { return open(t, opts) }
}

func TestEngine(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, inTemporal)
}

func TestEngine_EveryCommit(t *testing.T) {
	t.Parallel()
	skiptest.Short(t, "stops many runs at some of their commits")
	enginetest.EveryCommit(t, inTemporal, 8, 1, false)
}
