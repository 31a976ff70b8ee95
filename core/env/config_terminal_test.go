package env_test

import (
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/env"
)

// The terminal is configured in the home; what a person has not said has its
// default.
func TestTerminal(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	equal(t, env.Terminal{Theme: "auto", Notify: "osc"}, b.load().Terminal)
	b.write(b.home.Config(), `{"tui": {"theme": "modus", "ascii": true, "plain": true, "notify": "bell", "keys": {"approve": ["ctrl+a"], "help": []}}}`)
	c := b.load()
	equal(t, env.Terminal{Theme: "modus", ASCII: true, Plain: true, Notify: "bell", Keys: map[string][]string{"approve": {"ctrl+a"}, "help": {}}}, c.Terminal)
	if got := string(c.Show()); !strings.Contains(got, `"ctrl+a"`) {
		t.Errorf("not shown: %s", got)
	}
}

// A workspace does not say on which keys a person decides.
func TestTerminal_NotFromWorkspace(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write(".pml.json", `{"tui": {"keys": {"approve": ["j"]}}}`)
	_, err := env.Load(b.options())
	if core.CodeOf(err) != core.CodeInvalidConfig || !strings.Contains(err.Error(), "config.json of pml's home") {
		t.Errorf("%v", err)
	}
}
