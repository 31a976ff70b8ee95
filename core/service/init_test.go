package service_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// The first file that a person has pml write is trusted, so that a server that is
// added to it keeps the trust; files that grant something by themselves are not
// trusted along with it, and neither is one that nobody was there for.
func TestInit_Trust(t *testing.T) {
	t.Parallel()
	lock := `{"version": 1, "servers": {"a": {"command_digest": "sha256:` + strings.Repeat("0", 64) + `"}}}`
	for name, tt := range map[string]struct {
		file, text string
		pin, trust bool
		want       bool
	}{
		"InPerson":  {trust: true, want: true},
		"Nobody":    {},
		"Pin":       {trust: true, pin: true},
		"AlsoALock": {file: "pml.lock", text: lock, trust: true},
		"AlsoFlows": {file: ".pml/flows/a.json", text: `{"version": 1, "enabled": true}`, trust: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			if tt.file != "" {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(m.ws, tt.file)), 0o700); err != nil {
					t.Fatal(err)
				}
				m.write(tt.file, tt.text)
			}
			if tt.pin {
				m.setPin(rightPin)
			}
			c := m.client()
			if _, err := c.Init(c.ctx(), api.Deciders{}, tt.trust); err != nil {
				t.Fatal(err)
			}
			s, err := c.Trust(c.ctx())
			if err != nil || s.Trusted != tt.want || s.Empty {
				t.Fatalf("trusted %t, %v", s.Trusted, err)
			}
			if _, err := c.Init(c.ctx(), api.Deciders{}, tt.trust); core.CodeOf(err) != core.CodeInvalidArguments {
				t.Errorf("again: %v", err)
			}
			if !tt.want {
				return
			}
			set, err := c.AddServer(c.ctx(), api.ServerEntry{Name: "a", Command: os.Args[0]})
			if err != nil {
				t.Fatal(err)
			}
			if trusted, err := c.Write(c.ctx(), set, true, ""); err != nil || !trusted {
				t.Errorf("with a server: trusted %t, %v", trusted, err)
			}
		})
	}
}
