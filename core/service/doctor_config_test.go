package service_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core/api"
)

// named are the checks of a name.
func (c *client) named(name string) []api.Check {
	c.t.Helper()
	list, err := c.Doctor(c.ctx())
	if err != nil {
		c.t.Fatal(err)
	}
	return slices.DeleteFunc(list, func(check api.Check) bool { return check.Name != name })
}

// A pattern that cannot be compiled switches everything off: doctor fails and
// says which it is, whether or not the configuration was good before.
func TestDoctor_Malformed(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]map[string]any{
		"Empty":  {"expose": []string{"slow:"}},
		"Class":  {"expose": []string{"slow:[x"}},
		"Denied": {"permissions": map[string]any{"deny": []string{"slow:[x"}}},
	} {
		for _, before := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				m := newMachine(t)
				c := m.client()
				if before {
					m.configure(c, nil, map[string]any{})
					c.named("configuration")
				}
				m.configure(c, bad, map[string]any{"mirror": mirror()})
				got := c.named("configuration")
				if len(got) != 1 || got[0].Status != "fail" || !strings.Contains(got[0].Detail, "slow:") || strings.Contains(got[0].Detail, "\n") {
					t.Errorf("%+v", got)
				}
			})
		}
	}
}

// What is in pml.lock and not in the configuration is called that.
func TestDoctor_LeftOver(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := m.client()
	m.configure(c, nil, map[string]any{"mirror": mirror(), "other": mirror()})
	if _, err := c.LockServers(c.ctx(), false); err != nil {
		t.Fatal(err)
	}
	for _, servers := range []map[string]any{{"mirror": mirror()}, {}} {
		m.configure(c, nil, servers)
		m.clock.forward(time.Second)
		got := c.named("lock")
		if len(got) != 1 || got[0].Status != "warn" || !strings.Contains(got[0].Detail, "does not have: ") || !strings.Contains(got[0].Detail, "other") ||
			strings.Contains(got[0].Detail, "mirror") == (len(servers) > 0) {
			t.Errorf("%+v", got)
		}
	}
}

// What is offered is told once and plainly: a name that collides without the
// name of the check before it, a server that is not there without that its
// patterns match nothing.
func TestDoctor_Exposed(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := m.client()
	m.configure(c, map[string]any{"expose": []string{"a:look", "b:look", "image:run"}, "permissions": map[string]any{"allow": []string{"image:run", "a:lock"}}}, map[string]any{
		"a": mirror(), "b": mirror(), "image": map[string]any{"command": "docker", "args": []string{"run", "-i", "some/image"}},
	})
	got := c.named("expose")
	if len(got) != 2 {
		t.Errorf("%+v", got)
	}
	for _, check := range got {
		if check.Status != "warn" || strings.Contains(check.Detail, "expose: ") || strings.Contains(check.Detail, "no known tool") {
			t.Errorf("%+v", check)
		}
	}
	if rules := c.named("permissions"); len(rules) != 1 || !strings.Contains(rules[0].Detail, "a:lock") {
		t.Errorf("%+v", rules)
	}
}
