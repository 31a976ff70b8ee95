package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/google/uuid"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/store/bolt"
)

// openHost lets every call pass and answers it with its own arguments.
type openHost struct{}

func (openHost) Try(engine.Call) (engine.Verdict, bool)                   { return engine.Verdict{}, true }
func (openHost) Check(context.Context, engine.Call) engine.Verdict        { return engine.Verdict{} }
func (openHost) Apply(context.Context, core.Approval, func(string)) error { return nil }
func (openHost) Call(_ context.Context, c engine.Call, _ func(string)) (json.RawMessage, error) {
	return c.Args, nil
}

// systemClock is the clock of the machine.
type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

// A graph of two tasks runs on a store of its own; its result is that of its last layer.
func ExampleEngine_Start() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "pml")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	newID := func() core.ID { return core.ID(uuid.NewString()) }
	s, err := bolt.Open(bolt.Options{Dir: dir, Name: "runs", Clock: systemClock{}, NewID: newID, Exclusive: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	runner, err := s.Register(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer runner.Close()
	e := engine.New(engine.Options{
		Store: s, Runner: runner.ID(), Clock: systemClock{}, NewID: newID, Logger: slog.New(slog.DiscardHandler),
		Hosts:  func(string) (engine.Host, error) { return openHost{}, nil },
		Limits: func(string) (engine.Limits, error) { return engine.Limits{Calls: 10, Concurrency: 2}, nil },
	})
	defer e.Close()

	program, err := engine.Planned(core.Program{Kind: core.KindDAG, Version: 1, Tasks: []core.TaskSpec{
		{ID: "first", Tool: "demo:echo", Arguments: json.RawMessage(`{"value": 1}`)},
		{ID: "second", Tool: "demo:echo", Arguments: json.RawMessage(`{"value": "$first.value"}`)},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	h, err := e.Start(ctx, core.Run{ID: newID(), Kind: core.KindDAG}, program)
	if err != nil {
		fmt.Println(err)
		return
	}
	status, err := h.Wait(ctx, engine.Ended)
	fmt.Println(status.Run.State, string(status.Run.Result), err)
	// Output: complete {"second":{"value":1}} <nil>
}
