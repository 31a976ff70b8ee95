package machine_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/daemon"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/machine"
	"github.com/casys-ai/pml/core/presence"
)

// TestElsewhere: a process of the home's own server is told from those of others, with
// the file in which that server logs.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	home := env.Home{Dir: t.TempDir()}
	for _, p := range []api.ServerProcess{
		{Server: "web", Workspace: "/w", PID: 11, Owner: 4242},
		{Server: "db", Workspace: "/w", PID: 12, Owner: 4343},
	} {
		ended, err := presence.Join(home.Processes(), p)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(ended)
	}
	if err := os.WriteFile(filepath.Join(home.Dir, "server.json"), []byte(`{"pid": 4242, "background": true}`), 0o600); err != nil {
		t.Fatal(err)
	}
	of, err := machine.Open(machine.Options{Home: home, Logger: slog.New(slog.DiscardHandler)}).Elsewhere("/w")
	if err != nil || len(of["web"]) != 1 || len(of["db"]) != 1 {
		t.Fatalf("%v %+v", err, of)
	}
	if p := of["web"][0]; !p.Serves || p.Log != daemon.LogFile(home.Dir) {
		t.Errorf("%+v", p)
	}
	if p := of["db"][0]; p.Serves || p.Log != "" {
		t.Errorf("%+v", p)
	}
}
