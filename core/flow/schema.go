package flow

import _ "embed"

//go:embed schema.json
var schemaText []byte

// Schema is the JSON Schema (2020-12) of a flow's file. It knows shapes; what nodes
// need of each other Parse checks.
func Schema() []byte { return append([]byte(nil), schemaText...) }
