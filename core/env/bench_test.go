package env_test

import (
	"testing"

	"github.com/casys-ai/pml/core/env"
)

func BenchmarkLoadAndTrust(b *testing.B) {
	x := newBox(b)
	x.write(".pml.json", hostile)
	x.write(".pml/flows/a.json", `{"name": "flow"}`)
	x.setTrust(x.trust())
	for b.Loop() {
		c, err := env.Load(x.options())
		if err != nil {
			b.Fatal(err)
		}
		if s, err := x.home.TrustOf(c); err != nil || !s.Trusted {
			b.Fatal(s.Trusted, err)
		}
	}
}
