package cli_test

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/casys-ai/pml/cli"
	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"pml": func() { os.Exit(scripted()) }})
}

// scripted is the command line with a fake whose answers are in the file that
// PML_FAKE names: the results of execute and of each continue, in order. What
// it knows of servers is in the file that PML_FAKE_WORLD names, what waits in that
// of PML_FAKE_ASKS, and what it was asked to go on with is written to PML_FAKE_WENT.
func scripted() int {
	f := manyRuns()
	if file := os.Getenv("PML_FAKE"); file != "" {
		readJSON(file, &f.results)
	}
	if file := os.Getenv("PML_FAKE_ASKS"); file != "" {
		f.pending = nil
		readJSON(file, &f.pending)
	}
	if file := os.Getenv("PML_FAKE_WENT"); file != "" {
		defer func() { writeJSON(file, f.went) }()
	}
	if name := os.Getenv("PML_FAKE_WORLD"); name != "" {
		f.world = readWorld(name)
	}
	return cli.Main(context.Background(), os.Args[1:], app.Deps{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.LookupEnv,
		Clock: clock{}, User: "ann", Version: app.Version{Version: "1.2.3"},
		Open: func(_ context.Context, o app.OpenOptions) (app.Backend, error) {
			f.progress = o.Progress
			if os.Getenv("PML_FAKE_DOWN") != "" {
				return nil, core.Errorf(core.CodeServerUnreachable, "no server at %s", o.Server).WithNext("pml", "doctor")
			}
			return f, nil
		},
	})
}

func readWorld(name string) world {
	var w struct {
		Servers []api.ServerInfo `json:"servers"`
		Changes []api.Change     `json:"changes"`
		Lock    api.LockReport   `json:"lock"`
		Update  api.Update       `json:"update"`
		URL     string           `json:"url"`
		Hosts   []api.HostChange `json:"hosts"`
	}
	readJSON(name, &w)
	return world{list: w.Servers, set: api.ChangeSet{Changes: w.Changes}, lock: w.Lock, update: w.Update, url: w.URL, hosts: w.Hosts}
}

func readJSON(name string, into any) {
	raw, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		panic(err)
	}
}

func writeJSON(name string, v any) {
	raw, err := json.Marshal(v)
	if err == nil {
		err = os.WriteFile(name, raw, 0o600)
	}
	if err != nil {
		panic(err)
	}
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exit": exitCommand,
		},
	})
}

// exitCommand runs a command and wants its exit code: exit 8 pml execute a.ts.
func exitCommand(ts *testscript.TestScript, _ bool, args []string) {
	var want int
	if err := json.Unmarshal([]byte(args[0]), &want); err != nil {
		ts.Fatalf("exit wants a number: %v", err)
	}
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	if err != nil {
		got = -1
		if e, ok := err.(interface{ ExitCode() int }); ok {
			got = e.ExitCode()
		}
	}
	if got != want {
		ts.Fatalf("exit %d, want %d (%v)", got, want, err)
	}
}
