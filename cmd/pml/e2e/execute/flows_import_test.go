//go:build unix

package execute_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
)

// original is a flow as the editor writes it that the format comes from: a hook with the
// script of a module, one that nobody waits for, and members that pml does not know.
const original = `{"id":"6f1c","name":"redact","workflowType":"tools/call","enabled":true,"createdAt":1756000000000,"updatedAt":1756000000000,"owner":{"team":"a"},
"nodes":[
{"id":"start","type":"start","position":{"x":100,"y":200},"data":{"label":"Start"},"deletable":false},
{"id":"hook-1","type":"hook","position":{"x":220,"y":200},"data":{"label":"check","colour":"red","hook":{"id":"hook-1","hookModuleId":"m-1","blocking":true}},"selected":true},
{"id":"mcp-call","type":"mcp-call","position":{"x":350,"y":200},"data":{"label":"MCP Call"},"deletable":false},
{"id":"hook-2","type":"hook","position":{"x":480,"y":320},"data":{"label":"audit","hook":{"id":"hook-2","script":"console.log(context.request.method)","blocking":false}}},
{"id":"end","type":"end","position":{"x":600,"y":200},"data":{"label":"End"},"deletable":false}],
"edges":[{"source":"start","target":"hook-1","animated":true},{"source":"hook-1","target":"mcp-call"},{"source":"mcp-call","target":"end"},{"source":"mcp-call","target":"hook-2"}]}`

const originalModule = `{"id":"m-1","name":"other key","version":"1.0.0","script":"return {params: {...context.request.params, arguments: {key: 'changed'}}}"}`

// A flow of the original editor comes in unchanged, runs, goes out with its module, and
// comes in again.
func TestFlows_Original(t *testing.T) {
	t.Parallel()
	m := pmltest.BareMachine(t)
	m.Configure(pmltest.AllowRec())
	bundle, err := json.Marshal(map[string]any{"flow": json.RawMessage(original), "files": map[string]string{"modules/m-1.json": originalModule}})
	if err != nil {
		t.Fatal(err)
	}
	m.OK("flows", "import", m.Write("bundle.json", string(bundle)))
	m.OK("flows", "validate")
	m.Exit(8, "execute", "--code", `return await mcp.rec.inc({key: "k"})`)
	m.OK("trust", "--yes")
	if r := m.Execute(0, `return await mcp.rec.inc({key: "k"})`); !strings.Contains(strings.Join(m.Calls(), " "), "changed") {
		t.Errorf("%+v, %q", r, m.Calls())
	}
	exported := m.OK("flows", "export", "6f1c").Stdout
	var out struct {
		Flow  map[string]any    `json:"flow"`
		Files map[string]string `json:"files"`
	}
	var want map[string]any
	if json.Unmarshal([]byte(exported), &out) != nil || json.Unmarshal([]byte(original), &want) != nil || !reflect.DeepEqual(out.Flow, want) || out.Files["modules/m-1.json"] != originalModule {
		t.Errorf("exported: %s", exported)
	}
	m.OK("flows", "rm", "6f1c", "--yes")
	m.OK("flows", "import", m.Write("again.json", exported)) // the module is there already
	text, err := os.ReadFile(filepath.Join(m.WS, ".pml", "flows", "6f1c.json"))
	var again map[string]any
	if err != nil || json.Unmarshal(text, &again) != nil || !reflect.DeepEqual(again, want) {
		t.Errorf("%v: %s", err, text)
	}
	m.Exit(2, "flows", "import", m.Write("other.json", strings.Replace(original, "redact", "other", 1)))
}
