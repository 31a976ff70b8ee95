package sandbox_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tables are the arguments of console.table, one call a line.
const tables = `[{a:1,b:'x'},{a:2,c:{d:1}}]
[[1,2],[3,'q']]
new Map([['k',{a:1}],[2,[1,2,3,4]]])
new Set([1,'b'])
[1,'two',{a:1}]
[{a:1,b:2},{a:3}],['b']
5
's'
null
undefined
{x:{a:1},y:{a:2}}
[]
{}
new Map()
[{o:{a:1,b:2,c:3},p:{a:1},q:[1,2,3,4],r:[],s:{},d:new Date(0),f(){},n:null,u:undefined,z:1n,e:'it\'s',m:new Map([[1,2]]),st:new Set([1])}]
new Map([[1,2]]).entries()
new Map([[1,2]]).keys()
new Set([7]).values()
[1,2],['x']
[{'日本':'中文', e: 'é', f: 'e\u0301'}]
[null, undefined, true]
[{a:{b:{c:1}}, s:Symbol('q'), c: class Foo{}, i: new (class Bar{x=1}), neg:-0, nl:'a\nb\t\x01', k:{'a-b':1}}]
{a:1,b:'z'}
new Uint8Array([1,2])
[[{a:1}]]
'x',['y']
[{2: 'b', 1: 'a', z: 1}]
[{e: [1,,2], g: {get x() { return 1 }}, h: {set x(v) {}}, r: /a/g, nd: new Date(NaN), b: new Boolean(true), np: Object.create(null), af: async () => {}, u8: new Uint8Array(5)}]
[{q: 'a"b', r: 'a\'b"c', s: 'a\'b"c` + "`" + `d'}, 7, () => 1]
[{deep: [[1]], m: new Map([[{a: 1}, [2]]]), s: new Set([1,2,3,4,5])}]
(() => { const o = {a: 1}; o.self = o; return [{o}] })()`

// TestConsoleTable_Node: tables look as node draws them.
func TestConsoleTable_Node(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("there is no node to compare with")
	}
	p := newPool(t, patientLimits)
	lines := strings.Split(tables, "\n")
	const end = "--\n"
	var all strings.Builder
	for _, line := range lines {
		all.WriteString("console.table(" + line + "); console.log('--')\n")
	}
	out, err := exec.CommandContext(t.Context(), node, "-e", all.String()).CombinedOutput()
	if err != nil {
		t.Fatalf("node: %v %s", err, out)
	}
	drawn := strings.Split(strings.TrimSuffix(string(out), end), end)
	if len(drawn) != len(lines) {
		t.Fatalf("node drew %d tables, want %d", len(drawn), len(lines))
	}
	s, turn := mustOpen(t, p, all.String(), "")
	s.Close()
	var text strings.Builder
	for _, l := range turn.Logs {
		text.WriteString(l.Text + "\n")
	}
	got := strings.Split(strings.TrimSuffix(text.String(), end), end)
	if turn.Err != nil || len(got) != len(lines) {
		t.Fatalf("pml drew %d tables, want %d: %v", len(got), len(lines), turn.Err)
	}
	for i, line := range lines {
		if diff := cmp.Diff(drawn[i], got[i]); diff != "" {
			t.Errorf("console.table(%s): (-node +pml)\n%s", line, diff)
		}
	}
}
