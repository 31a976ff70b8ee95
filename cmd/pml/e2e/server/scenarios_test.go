//go:build unix

package server_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/skiptest"
)

// stores are what a server can keep its runs in.
var stores = []string{"bbolt", "postgres"}

// onceMore is why go test leaves out PostgreSQL where a test is about both stores.
const onceMore = "does on PostgreSQL what it does on bbolt"

// onStores runs a test on a machine whose server keeps its runs in server.db,
// and on one that has a PostgreSQL database of its own.
func onStores(t *testing.T, c pmltest.Config, test func(t *testing.T, m *pmltest.Machine)) {
	t.Helper()
	for _, kind := range stores {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			if kind == "postgres" {
				skiptest.Long(t, onceMore)
			}
			m := pmltest.BareMachine(t)
			if kind == "postgres" {
				keepShared(m)
			}
			m.Configure(c)
			test(t, m)
		})
	}
}

// newKey makes an API key.
func newKey(m *pmltest.Machine, name string) string {
	m.T.Helper()
	return strings.TrimSpace(m.OK("server", "key", "add", name).Stdout)
}

// callerWithKey is a caller over TCP with a key.
func callerWithKey(m *pmltest.Machine, key string) *pmltest.Caller {
	m.T.Helper()
	return &pmltest.Caller{
		M: m, Base: m.Status(0).Server.URL, Head: map[string]string{"Authorization": "Bearer " + key},
		Conn: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	}
}

// restartServer ends a server by a signal, -9 with everything below it, and starts
// the next one.
func restartServer(m *pmltest.Machine, p *pmltest.Process, sig syscall.Signal, args ...string) *pmltest.Process {
	m.T.Helper()
	if sig == syscall.SIGKILL {
		p.Kill()
	} else {
		p.Signal(sig)
		p.Wait().Want(0)
	}
	return m.Serving(args...)
}

// yes and no are decisions that wait for what comes of them.
func yes() map[string]any { return decides(true) }

func no() map[string]any { return decides(false) }

func decides(approved bool) map[string]any {
	return map[string]any{"decision": map[string]any{"approved": approved}, "wait": pmltest.Patience.Milliseconds()}
}

// specs are tasks as a request has them.
func specs(t testing.TB, tasks []map[string]any) *api.WorkflowBody {
	t.Helper()
	raw, err := json.Marshal(tasks)
	if err != nil {
		t.Fatal(err)
	}
	var out api.WorkflowBody
	if err := json.Unmarshal(raw, &out.Tasks); err != nil {
		t.Fatal(err)
	}
	return &out
}
