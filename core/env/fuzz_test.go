package env_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/env"
)

func FuzzLoad(f *testing.F) {
	for _, s := range []string{
		`{}`, hostile, keysConfig, string(env.Starter(false, false)), "{\"a\":1,}", "\ufeff{}", "{/*", "[[[[", `{"mcpServers":{"a":{"command":"${A:-b}"}}}`,
		`{"models":{"x":[1,2,{"y":null}],"default":1,"a b":{"protocol":"openai","model":"${X","price":{"input":-1},"timeout":3}}}`, `{"retention":"1d2h"}`, `{"a/b~c":1}`, "{\"\xff\":1}", `{"expose":[,]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		b := newBox(t)
		b.write(".pml.json", string(data))
		c, err := env.Load(b.options())
		if err != nil {
			var e *core.Error
			if !errors.As(err, &e) || e.Code != core.CodeInvalidConfig || len(e.Faults) == 0 {
				t.Fatalf("error %v", err)
			}
			lines := strings.Count(string(data), "\n") + 1
			for _, f := range e.Faults {
				if f.Message == "" || f.File == "" || f.At != nil && (f.At.Line < 1 || f.At.Line > lines || f.At.Column < 1) {
					t.Fatalf("fault %+v", f)
				}
			}
			return
		}
		s, err := b.home.TrustOf(c)
		if err != nil {
			t.Fatal(err)
		}
		if s.Trusted != s.Empty {
			t.Fatal("trusted without a person")
		}
		e := c.Effective(false)
		if len(e.Servers) > 0 || len(e.Permissions.Allow) > 0 || e.Permissions.ReadOnly == "allow" {
			t.Fatalf("grants without trust: %+v", e)
		}
		c.Unset()
		c.Show()
	})
}

func FuzzParseDotEnv(f *testing.F) {
	for _, s := range []string{"A=1\n", "A='x\ny'\n", "A=\"${B}\" # c", "export A=b", "A", "=b", "A: b", "\"", "A='\\''", "A=\"$(x)\""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		values, faults := env.ParseDotEnv(".env", data)
		for name := range values {
			if name == "" {
				t.Fatal("a variable without a name")
			}
		}
		for _, fault := range faults {
			if fault.At != nil && (fault.At.Line < 1 || fault.At.Line > strings.Count(string(data), "\n")+1) {
				t.Fatalf("fault %+v", fault)
			}
		}
	})
}
