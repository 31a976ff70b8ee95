// Package corpus_test runs the corpus of scripts and the sandbox's attacks with the real program.
package corpus_test

import (
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
)

func TestMain(m *testing.M) { pmltest.Main(m) }
