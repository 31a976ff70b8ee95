package upstream_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/upstream"
)

// defining is a server over HTTP that lists these definitions.
func defining(t *testing.T, definitions string) upstream.Launch {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var msg message
		body, _ := io.ReadAll(r.Body)
		if r.Method != http.MethodPost || json.Unmarshal(body, &msg) != nil {
			http.Error(w, "only POST", http.StatusMethodNotAllowed)
			return
		}
		result := `{"tools":` + definitions + `}`
		switch {
		case len(msg.ID) == 0:
			w.WriteHeader(http.StatusAccepted)
			return
		case msg.Method == "initialize":
			result = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"d","version":"1"}}`
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, msg.ID, result)
	}))
	t.Cleanup(srv.Close)
	return upstream.Launch{Name: "d", URL: srv.URL, Digest: "d"}
}

// What is passed on of a definition has one reading, that of pml, and all of it
// is in the tool that is compared.
func TestDefinitions_HaveOneReading(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ in, raw, description, rest string }{
		"as it is": {
			in:  `{ "name":"t","description":"a <b>","inputSchema":{"type":"object","maximum":1.0},"annotations":{"title":"T"},"execution":{"taskSupport":"forbidden"},"_meta":{},"icons":null}`,
			raw: `{ "name":"t","description":"a <b>","inputSchema":{"type":"object","maximum":1.0},"annotations":{"title":"T"},"execution":{"taskSupport":"forbidden"},"_meta":{},"icons":null}`, description: "a <b>",
		},
		"case":        {in: `{"name":"t","Name":"u","description":"real","Description":"approved","DEſCRIPTION":"x"}`, raw: `{"description":"real","name":"t"}`, description: "real"},
		"case alone":  {in: `{"name":"t","Description":"approved"}`, raw: `{"name":"t"}`},
		"doubled":     {in: `{"name":"u","name":"t","description":"a","descr\u0069ption":"<b>"}`, raw: `{"description":"<b>","name":"t"}`, description: "<b>"},
		"deep inside": {in: `{"name":"t","inputSchema":{"properties":[{"description":"a","description":"b","n":1.10}]}}`, raw: `{"inputSchema":{"properties":[{"description":"b","n":1.10}]},"name":"t"}`},
		"schemas":     {in: `{"name":"t","inputSchema":{"properties":{"a":{},"A":{}}},"InputSchema":{}}`, raw: `{"inputSchema":{"properties":{"a":{},"A":{}}},"name":"t"}`},
		"hints":       {in: `{"name":"t","annotations":{"readOnlyHint":false,"ReadOnlyHint":true}}`, raw: `{"annotations":{"readOnlyHint":false},"name":"t"}`},
		"rest": {
			in:   `{"name":"t","title":"T","icons":[{"src":"data:,x"}],"_meta":{"n":1.10},"execution":{"taskSupport":"required"},"annotations":{"title":"other","x":1},"new":""}`,
			raw:  `{"name":"t","title":"T","icons":[{"src":"data:,x"}],"_meta":{"n":1.10},"execution":{"taskSupport":"required"},"annotations":{"title":"other","x":1},"new":""}`,
			rest: `{"_meta":{"n":1.10},"annotations":{"title":"other","x":1},"execution":{"taskSupport":"required"},"icons":[{"src":"data:,x"}]}`,
		},
		"bytes": {in: "{\"name\":\"t\",\"description\":\"\xff\"}", raw: "{\"name\":\"t\",\"description\":\"\uFFFD\"}", description: "\uFFFD"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defs, _, err := newManager(t, nil).Definitions(t.Context(), defining(t, "["+tt.in+"]"))
			if err != nil || len(defs) != 1 {
				t.Fatal(defs, err)
			}
			d := defs[0]
			if diff := cmp.Diff([]string{tt.raw, "t", tt.description, tt.rest}, []string{string(d.Raw), d.Tool.Name, d.Tool.Description, string(d.Tool.Rest)}); diff != "" {
				t.Error(diff)
			}
			if a := d.Tool.Annotations; a.IsReadOnly() {
				t.Error("it only reads")
			}
		})
	}
}

func TestDefinitions_Unreadable(t *testing.T) {
	t.Parallel()
	for in, code := range map[string]core.Code{
		`null`:                          core.CodeServerUnreachable,
		`"t"`:                           core.CodeServerUnreachable,
		`{"name":1}`:                    core.CodeServerUnreachable,
		`{"name":"t","annotations":[]}`: core.CodeServerUnreachable,
		`{"name":"t","_meta":{"a":` + nested(600) + `}}`:                                               core.CodeToolFailed,
		`{"name":"t","x":` + strings.Repeat(`{"a":`, 600) + `{"b":1,"b":2}` + strings.Repeat(`}`, 601): core.CodeToolFailed,
	} {
		if defs, _, err := newManager(t, nil).Definitions(t.Context(), defining(t, "["+in+"]")); core.CodeOf(err) != code {
			t.Errorf("%.40s: %v %v", in, defs, err)
		}
	}
}
