// Command hostilehost is a pml process with small sandbox limits that runs
// scripts one after the other, with another run beside them all the time, and
// says how each ended and what it took. It serves a test, which measures this
// process as a whole.
//
//	hostilehost --cpu 400ms --memory 33554432 SCRIPT…
//
// PML_HOME and PML_WORKSPACE are those of pml. Scripts call mcp.rec.echo.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"time"

	"github.com/google/uuid"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/analyze"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/sandbox"
	"github.com/casys-ai/pml/core/service"
	"github.com/casys-ai/pml/store/bolt"
)

const sandboxCommand = "__sandbox"

func main() {
	if len(os.Args) == 2 && os.Args[1] == sandboxCommand {
		os.Exit(sandbox.ChildMain(os.Stdin, os.Stdout, analyze.Code))
	}
	var limits sandbox.Limits
	flag.DurationVar(&limits.CPU, "cpu", 400*time.Millisecond, "of one turn")
	flag.Int64Var(&limits.MemoryBytes, "memory", 32<<20, "of a VM")
	flag.Parse()
	limits.ResultBytes, limits.LogBytes = 1<<20, 64<<10
	if err := run(limits, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "hostilehost:", err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(outcome{Script: "children", MiB: childrenMiB()}); err != nil {
		os.Exit(1)
	}
}

type clock struct{}

func (clock) Now() time.Time { return time.Now() }

func newID() core.ID { return core.ID(uuid.NewString()) }

// outcome is a line of the output; Script is a file, "neighbour", or "children"
// with the most memory that one of them had.
type outcome struct {
	Script string    `json:"script"`
	Code   core.Code `json:"code"`
	Error  string    `json:"error,omitempty"`
	TookMS int64     `json:"took_ms"`
	Runs   int       `json:"runs,omitempty"`
	MiB    int       `json:"mib,omitempty"`
}

func run(limits sandbox.Limits, files []string) (err error) {
	c, err := open(limits)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := c.Close(); err == nil {
			err = cerr
		}
	}()
	out := json.NewEncoder(os.Stdout)
	stop, neighbour := make(chan struct{}), make(chan outcome, 1)
	go func() { neighbour <- beside(c, stop) }()
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := out.Encode(execute(c, file, string(source))); err != nil {
			return err
		}
	}
	close(stop)
	return out.Encode(<-neighbour)
}

// beside runs a script again and again; each must come to the right result.
func beside(c *service.Service, stop chan struct{}) outcome {
	all := outcome{Script: "neighbour"}
	for {
		o := execute(c, "neighbour", `let sum = 0;
for (const n of [1, 2, 3]) sum += (await mcp.rec.echo({ value: n })).value;
if (sum !== 6) throw new Error("the sum is " + sum);
return sum;`)
		all.Runs++
		all.TookMS = max(all.TookMS, o.TookMS)
		if o.Code != "" {
			all.Code, all.Error = o.Code, o.Error
			return all
		}
		select {
		case <-stop:
			return all
		default:
		}
	}
}

func execute(c *service.Service, file, source string) outcome {
	begin := time.Now()
	r, err := c.Execute(context.Background(), api.ExecuteRequest{Code: source, File: file, Wait: -1})
	o := outcome{Script: file, Code: r.ErrorCode, Error: r.Error, TookMS: time.Since(begin).Milliseconds()}
	if err != nil {
		o.Code, o.Error = core.CodeOf(err), err.Error()
	}
	return o
}

// open wires a client as cmd/pml does, but for the limits.
func open(limits sandbox.Limits) (*service.Service, error) {
	environ := env.OS()
	home, err := env.FindHome("", environ)
	if err != nil {
		return nil, err
	}
	ws, err := env.FindWorkspace(".", environ)
	if err != nil {
		return nil, err
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	st, err := bolt.Open(bolt.Options{
		Dir: home.PendingDir(), Clock: clock{}, NewID: newID, PID: os.Getpid(), Process: "hostilehost", Logger: logger,
	})
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return service.Open(service.Options{
		Home: home, Workspace: ws, Environ: environ, Names: env.OSNames(), Store: st,
		Sandbox: sandbox.NewPool(sandbox.Options{Command: []string{self, sandboxCommand}, Limits: limits}),
		Clock:   clock{}, NewID: newID, LookPath: exec.LookPath, Logger: logger, Version: "test",
	}), nil
}
