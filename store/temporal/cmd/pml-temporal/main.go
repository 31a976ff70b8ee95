// Command pml-temporal is pml with one engine more: runs of its servers may be kept in Temporal. pml starts it by
// itself for pml serve --engine temporal://HOST:PORT/NAMESPACE and pml doctor --engine, with the same arguments.
package main

import (
	"context"
	"errors"
	"os"

	"github.com/casys-ai/pml/cmd/pml/process"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/temporal"
	"github.com/casys-ai/pml/store/temporal/address"
)

// The linker sets these in releases: -X main.version=v1.2.3.
var version, commit, date string

func main() {
	os.Exit(process.Main(
		process.Build{Version: version, Commit: commit, Date: date},
		process.Engine{Scheme: "temporal", Open: open, Check: check},
	))
}

func open(ctx context.Context, at process.EngineAddress) (store.Store, error) {
	o, err := options(at)
	if err != nil {
		return nil, err
	}
	s, err := temporal.Open(ctx, o)
	if err != nil {
		return nil, core.AsError(err).WithNext("pml", "doctor", "--engine", at.URL.String())
	}
	return s, nil
}

// check looks at what Temporal has, after it has made what is missing where that is wanted.
func check(ctx context.Context, at process.EngineAddress, prepare bool) ([]api.Check, error) {
	o, err := options(at)
	if err != nil {
		return nil, err
	}
	var failed error
	if prepare {
		failed = temporal.Prepare(ctx, o)
	}
	list, err := temporal.Check(ctx, o)
	for i, c := range list {
		if !prepare && c.Status == "fail" && (c.Name == "temporal namespace" || c.Name == "temporal search attributes") {
			list[i].Next = []string{"pml", "doctor", "--engine", at.URL.String(), "--prepare"}
		}
	}
	return list, errors.Join(failed, err)
}

func options(at process.EngineAddress) (temporal.Options, error) {
	o, err := address.Options(at.URL, at.Home, at.Environ)
	o.Clock, o.NewID, o.Logger = at.Clock, at.NewID, at.Logger
	return o, err
}
