// Hosts tries an agent host with a scripted model: it installs the host, builds
// pml and compares what comes of it with docs/hosts.md, by the tests in
// cmd/pml/e2e/stdio. Of a host that is installed it starts one for a person to look
// at instead. README.md beside this file says how.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/casys-ai/pml/testdata/clients/hosts/model"
	"github.com/casys-ai/pml/testdata/clients/hosts/trial"
)

// options are the command line.
type options struct {
	packages, script, config, pml string
	terminal, loose, verbose      bool
}

func main() {
	var o options
	flag.StringVar(&o.packages, "packages", "", "the node_modules with the host, which is then started for you to look at; the trial says where it is")
	flag.StringVar(&o.script, "script", "", "a JSON file with the turns of the model; by default a run with a question, that the agent then approves")
	flag.StringVar(&o.config, "config", "", "a file that becomes the workspace's .pml.json, and is trusted; by default what pml init writes")
	flag.StringVar(&o.pml, "pml", "pml", "the pml to try")
	flag.BoolVar(&o.terminal, "terminal", false, "start the host for a person in this terminal, not headless")
	flag.BoolVar(&o.loose, "loose", true, "let the host call pml's tools without asking, where its own settings have to say so")
	flag.BoolVar(&o.verbose, "v", false, "write the requests of the host to model.log in the folder")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: hosts [flags] HOST\nhosts:", strings.Join(names(), ", "))
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(context.Background(), o, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func names() []string {
	var out []string
	for _, h := range trial.Hosts {
		out = append(out, h.Name)
	}
	return out
}

func run(ctx context.Context, o options, name string) error {
	i := slices.IndexFunc(trial.Hosts, func(h trial.Host) bool { return h.Name == name })
	if i < 0 {
		return fmt.Errorf("name a host: %s", strings.Join(names(), ", "))
	}
	if o.packages == "" {
		return try(ctx, trial.Hosts[i])
	}
	return look(ctx, o, trial.Hosts[i])
}

// try runs the tests of a host.
func try(ctx context.Context, host trial.Host) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-count", "1", "-timeout", "20m", "-v", "-run", host.Tests, "./cmd/pml/e2e/stdio")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "PML_TEST_REQUIRE=all")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s does not do what docs/hosts.md says, or could not be tried (see above): %w", host.Title, err)
	}
	fmt.Println(host.Title, "does what docs/hosts.md says.")
	return nil
}

// look starts a host, and waits for its end.
func look(ctx context.Context, o options, host trial.Host) error {
	dir, err := os.MkdirTemp("", "hosts-"+host.Name+"-")
	if err != nil {
		return err
	}
	m, address, err := serve(ctx, o, dir)
	if err != nil {
		return err
	}
	p := trial.Place{Packages: o.packages, Home: filepath.Join(dir, "home"), Workspace: filepath.Join(dir, "ws"), Model: "http://" + address}
	if p.Packages, err = filepath.Abs(p.Packages); err != nil {
		return err
	}
	r := &runner{ctx: ctx, place: p, host: host}
	if err := r.prepare(o); err != nil {
		return err
	}
	before := host.Headless
	if o.terminal {
		before = host.Interactive
	}
	args := p.Args(host, before, "Do what there is to do.")
	fmt.Printf("folder: %s\nin another terminal: cd %s; export HOME=%s\n", dir, p.Workspace, p.Home)
	err = r.run(args[0], args[1:]...)
	for _, s := range m.Seen() {
		fmt.Printf("%s: %d results, then %s\n", s.Path, len(s.Results), s.Answer)
	}
	return err
}

// serve answers as a model on a port of this machine.
func serve(ctx context.Context, o options, dir string) (*model.Model, string, error) {
	m := &model.Model{Turns: []model.Turn{
		{Tool: "execute", Args: map[string]any{"code": `return await mcp.workspace.write_file({path: "hello.txt", content: "hello"})`}},
		{Tool: "approval_response", Args: map[string]any{"workflow_id": "$workflow_id", "checkpoint_id": "$checkpoint_id", "approved": true}},
		{Say: "That is all."},
	}}
	if o.script != "" {
		raw, err := os.ReadFile(o.script)
		if err != nil {
			return nil, "", err
		}
		m.Turns = nil
		if err := json.Unmarshal(raw, &m.Turns); err != nil {
			return nil, "", fmt.Errorf("%s: %w", o.script, err)
		}
	}
	if o.verbose {
		log, err := os.Create(filepath.Join(dir, "model.log"))
		if err != nil {
			return nil, "", err
		}
		m.Log = func(path string, body []byte) {
			fmt.Fprintf(log, "%s %s\n%s\n", time.Now().Format(time.TimeOnly), path, body)
		}
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	go func() {
		err := (&http.Server{Handler: m, ReadHeaderTimeout: 10 * time.Second}).Serve(l)
		fmt.Fprintln(os.Stderr, "the model has ended:", err)
	}()
	return m, l.Addr().String(), nil
}

// runner runs commands in the place of a trial.
type runner struct {
	ctx   context.Context
	place trial.Place
	host  trial.Host
}

func (r *runner) prepare(o options) error {
	for _, dir := range []string{r.place.Home, filepath.Join(r.place.Workspace, ".git"), filepath.Join(r.place.Home, "bin")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	pml, err := exec.LookPath(o.pml)
	if err != nil {
		return err
	}
	if pml, err = filepath.Abs(pml); err != nil {
		return err
	}
	if err := os.Symlink(pml, filepath.Join(r.place.Home, "bin", "pml")); err != nil {
		return err
	}
	if o.config != "" {
		raw, err := os.ReadFile(o.config)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(r.place.Workspace, ".pml.json"), raw, 0o600); err != nil {
			return err
		}
		if err := r.run("pml", "trust", "--yes"); err != nil {
			return err
		}
	}
	if err := errors.Join(r.place.Settle(r.host), r.run("pml", "init", "--host", r.host.Name, "--yes")); err != nil || !o.loose {
		return err
	}
	return r.place.Loosen(r.host)
}

// run runs a program on this terminal.
func (r *runner) run(name string, args ...string) error {
	path := filepath.Join(r.place.Home, "bin") + string(os.PathListSeparator) + os.Getenv("PATH")
	if name == "pml" {
		name = filepath.Join(r.place.Home, "bin", "pml")
	}
	cmd := exec.CommandContext(r.ctx, name, args...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = r.place.Workspace, os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(r.place.Env(r.host), "PATH="+path, "TERM="+os.Getenv("TERM"))
	return cmd.Run()
}
