package hook_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
)

// A node whose type somebody has written runs the script of its manifest with the
// parameters of the node, defaults filled in, on either side of the call; a newer manifest
// is another flow.
func TestRunner_Manifest(t *testing.T) {
	t.Parallel()
	const marks = `{"name":"mark","version":"1","blocking":true,"parameters":{"type":"object","properties":{"word":{"type":"string"},"times":{"type":"integer","default":2}},"required":["word"]},
		"script":"const p = context.parameters, text = p.word.repeat(p.times); if (context.response) return {response: {content: [{type: 'text', text}]}}; return {params: {arguments: {text}}}"}`
	of := func(id string, behind bool, data string) node {
		return node{id: id, kind: "template:mark", data: data, behind: behind}
	}
	text := line("f", "", of("before", false, `"parameters":{"word":"a"}`), of("after", true, `"parameters":{"word":"b","times":3}`))
	parse := func(manifest string) *flow.Folder {
		return flow.Parse(map[string][]byte{"f.json": []byte(text), "nodes/mark.json": []byte(manifest)}, false)
	}
	folder := parse(marks)
	if len(folder.Flows) != 1 || len(folder.Flows[0].Faults) > 0 {
		t.Fatalf("%+v", folder.Flows[0].Faults)
	}
	r, set, req := newRig(t), flow.NewSet(nil, folder, true), request(`{"text":"x"}`)
	p, err := r.Before(context.Background(), set, req)
	if err != nil || string(p.Args) != `{"text":"aa"}` {
		t.Fatalf("%+v %v", p, err)
	}
	if a := r.After(context.Background(), set, req, p, flow.Answer{Result: json.RawMessage(ok)}); !strings.Contains(string(a.Result), `"bbb"`) {
		t.Errorf("%s %v", a.Result, a.Err)
	}
	newer := flow.NewSet(nil, parse(strings.Replace(marks, `"version":"1"`, `"version":"2"`, 1)), true)
	if a := r.After(context.Background(), newer, req, p, flow.Answer{Result: json.RawMessage(ok)}); core.CodeOf(a.Err) != core.CodeHookFailed {
		t.Errorf("the manifest has changed since the call was made: %s %v", a.Result, a.Err)
	}
}
