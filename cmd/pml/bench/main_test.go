// Package bench_test measures the product as a whole. Where a figure has a floor, both are measured in turn in the
// same run and the ratio counts:
//
//	go test -run '^$' -bench . -benchtime 50x ./cmd/pml/bench
package bench_test

import (
	"testing"

	_ "github.com/casys-ai/pml/cmd/pml/gcpercent" // the engine runs in this process, too
	"github.com/casys-ai/pml/cmd/pml/pmltest"
)

func TestMain(m *testing.M) { pmltest.Main(m) }
