package upstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/upstream"
)

func TestNormalizeResult(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ raw, want, fails string }{
		"structured first":     {raw: `{"content":[{"type":"text","text":"x"}],"structuredContent":{"a":1.50}}`, want: `{"a":1.50}`},
		"structured scalar":    {raw: `{"content":[],"structuredContent":false}`, want: `false`},
		"structured null":      {raw: `{"content":[{"type":"text","text":"x"}],"structuredContent":null}`, want: `"x"`},
		"text that is JSON":    {raw: `{"content":[{"type":"text","text":" {\"n\": 1.0e2} \n"}]}`, want: `{"n": 1.0e2}`},
		"big number":           {raw: `{"content":[{"type":"text","text":"12345678901234567890"}]}`, want: `12345678901234567890`},
		"text":                 {raw: `{"content":[{"type":"text","text":"a <b> & c"}]}`, want: `"a <b> & c"`},
		"empty text":           {raw: `{"content":[{"type":"text","text":""}]}`, want: `""`},
		"two texts":            {raw: `{"content":[{"type":"text","text":"1"},{"type":"text","text":"2"}]}`, want: `[{"type":"text","text":"1"},{"type":"text","text":"2"}]`},
		"an image":             {raw: `{"content":[{"type":"image","data":"AA==","mimeType":"image/png"}]}`, want: `[{"type":"image","data":"AA==","mimeType":"image/png"}]`},
		"unknown type":         {raw: `{"content":[{"type":"hologram","x":1}]}`, want: `[{"type":"hologram","x":1}]`},
		"no content":           {raw: `{"content":[]}`, want: `[]`},
		"content missing":      {raw: `{}`, want: `null`},
		"error text":           {raw: `{"isError":true,"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, fails: "a\nb"},
		"error structured":     {raw: `{"isError":true,"content":[],"structuredContent":{"why":"x"}}`, fails: `{"why":"x"}`},
		"error text as it is":  {raw: `{"isError":true,"content":[{"type":"text","text":"  at line 1\n    here\n"}]}`, fails: "  at line 1\n    here\n"},
		"error without a word": {raw: `{"isError":true}`, fails: "did not say why"},
		"not a result":         {raw: `[1]`, fails: "not an MCP result"},
		"structured too deep":  {raw: `{"structuredContent":` + nested(9000) + `}`, fails: "more than 500 levels"},
		"text too deep":        {raw: `{"content":[{"type":"text","text":"` + nested(501) + `"}]}`, fails: "more than 500 levels"},
		"content too deep":     {raw: `{"content":[{"type":"x","y":` + nested(600) + `}]}`, fails: "more than 500 levels"},
		"deep enough":          {raw: `{"structuredContent":` + nested(500) + `}`, want: nested(500)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := upstream.NormalizeResult(json.RawMessage(tt.raw))
			if tt.fails != "" {
				wantCode(t, err, core.CodeToolFailed, tt.fails)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

func FuzzNormalizeResult(f *testing.F) {
	f.Add([]byte(`{"content":[{"type":"text","text":"1"}]}`))
	f.Add([]byte(`{"isError":true,"content":[{"type":"text","text":"\ud800"}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := upstream.NormalizeResult(raw)
		if err == nil && !json.Valid(got) {
			t.Errorf("%q gave %q", raw, got)
		}
		if err != nil && core.CodeOf(err) != core.CodeToolFailed {
			t.Errorf("%q: %v", raw, err)
		}
	})
}

func TestCheck(t *testing.T) {
	t.Parallel()
	m := newManager(t, nil)
	const schema = `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"path":{"type":"string","pattern":"^(?!x)"},"n":{"type":"integer","minimum":1},"deep":{"type":"array","items":{"enum":["a"]}}},"required":["path"],"additionalProperties":false}`
	for name, tt := range map[string]struct {
		schema, args string
		paths        []string // of the faults; none: valid
	}{
		"fine":              {schema, `{"path":"p","n":3}`, nil},
		"all at once":       {schema, `{"n":0,"deep":["a","b"],"more":1}`, []string{"", "/n", "/deep/1"}},
		"big integer":       {schema, `{"path":"p","n":12345678901234567890}`, nil},
		"bad schema":        {`{"type":"objekt"}`, `{"a":1}`, nil},
		"not a schema":      {`[`, `{"a":1}`, nil},
		"outside reference": {`{"$ref":"file:///etc/passwd"}`, `{"a":1}`, nil},
		"inner reference":   {`{"$defs":{"s":{"type":"string"}},"properties":{"a":{"$ref":"#/$defs/s"}}}`, `{"a":1}`, []string{"/a"}},
		"no schema":         {``, `{"a":1}`, nil},
		"no arguments":      {schema, ``, []string{""}},
		"huge schema":       {`{"properties":{"a":{"minimum":1e999999999}}}`, `{"a":1}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := m.Check(core.Tool{Server: "s", Name: "t", InputSchema: json.RawMessage(tt.schema)}, json.RawMessage(tt.args))
			if len(tt.paths) == 0 {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			wantCode(t, err, core.CodeInvalidArguments, "s:t")
			for _, p := range tt.paths {
				if !strings.Contains(err.Error(), p+": ") {
					t.Errorf("no fault at %q in: %v", p, err)
				}
			}
		})
	}
	err := m.Check(core.Tool{Server: "s", Name: "t", InputSchema: json.RawMessage(schema)}, json.RawMessage(`{"path":"p","n":1e999999999}`))
	wantCode(t, err, core.CodeInvalidArguments, "out of range")
}

// localServer is a server in this process.
type localServer func(ctx context.Context, dir, tool string, args json.RawMessage) (json.RawMessage, error)

func (localServer) Tools() []core.Tool { return []core.Tool{{Server: "?", Name: "do"}} }

func (f localServer) Call(ctx context.Context, dir, tool string, args json.RawMessage) (json.RawMessage, error) {
	return f(ctx, dir, tool, args)
}

func TestCall_Local(t *testing.T) {
	t.Parallel()
	m := newManager(t, func(o *upstream.Options) {
		o.Limits.ResultBytes = 100
		o.Local = map[string]upstream.LocalServer{"mine": localServer(func(ctx context.Context, dir, _ string, args json.RawMessage) (json.RawMessage, error) {
			switch string(args) {
			case `{"wait":1}`:
				<-ctx.Done()
				return nil, ctx.Err()
			case `{"fail":1}`:
				return nil, errors.New("no luck")
			case `{"big":1}`:
				return json.RawMessage(`"` + strings.Repeat("x", 200) + `"`), nil
			}
			return json.Marshal(dir)
		})}
	})
	l := upstream.Launch{Name: "mine", Workspace: "/w"}
	if got, err := call(t, m, l, "do", ``); err != nil || got != `"/w"` {
		t.Errorf("%s, %v", got, err)
	}
	_, err := call(t, m, l, "do", `{"fail":1}`)
	wantCode(t, err, core.CodeToolFailed, "no luck", "mine:do")
	_, err = call(t, m, l, "do", `{"big":1}`)
	wantCode(t, err, core.CodeResultTooLarge)
	_, err = call(t, m, l, "dou", ``)
	wantCode(t, err, core.CodeNoSuchTool, "do")
	_, err = m.Call(context.Background(), upstream.Request{Launch: l, Tool: "do", Args: json.RawMessage(`{"wait":1}`), Timeout: time.Millisecond})
	wantCode(t, err, core.CodeToolTimeout)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = m.Call(ctx, upstream.Request{Launch: l, Tool: "do", Args: json.RawMessage(`{"wait":1}`)})
	wantCode(t, err, core.CodeCancelled)
	tools, err := m.Tools(context.Background(), l)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]core.Tool{{Server: "mine", Name: "do"}}, tools); diff != "" {
		t.Error(diff)
	}
	_, err = call(t, m, upstream.Launch{Name: "unknown"}, "do", ``)
	wantCode(t, err, core.CodeServerUnreachable, "unknown")
}
