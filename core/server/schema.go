package server

import (
	"maps"
	"slices"

	"github.com/casys-ai/pml/core"
	described "github.com/casys-ai/pml/core/approval"
	"github.com/danielgtaylor/huma/v2"
)

// tune says in the schemas what the types of Go cannot: which words a field
// takes, and that a request has no other fields than these. The handlers check by
// the same schemas.
func tune(doc *huma.OpenAPI) {
	schemas := doc.Components.Schemas
	all := schemas.Map()
	field := func(name, field string) *huma.Schema { return all[name].Properties[field] }

	hil := field("ExecuteOptions", "hil")
	hil.Enum = []any{"", string(core.HILAlways), string(core.HILSideEffects), string(core.HILNever)}
	field("DecisionBody", "all_of_type").Enum = enum(approvalTypes())
	field("Trace", "state").Enum = enum(core.RunStates)
	field("Answer", "remember").Enum = []any{"", string(core.RememberRun), string(core.RememberSession), string(core.RememberRule)}
	field("Answer", "in_doubt").Enum = []any{"", string(core.RunAgain), string(core.SkipResult)}

	all["TaskSpec"].Properties["dependsOn"] = &huma.Schema{
		Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}, Description: "Another spelling of depends_on",
	}
	closed := map[string]bool{}
	for _, path := range doc.Paths {
		sayClientErrors(path)
		if path.Post == nil || path.Post.RequestBody == nil {
			continue
		}
		for _, media := range path.Post.RequestBody.Content {
			closeSchema(media.Schema, schemas, closed)
		}
	}
	for _, s := range all {
		recompute(s)
	}
}

// sayClientErrors names the range of the answers to bad requests, which are the
// same everywhere: huma says "default" only.
func sayClientErrors(path *huma.PathItem) {
	for _, o := range []*huma.Operation{path.Get, path.Post, path.Delete} {
		if o != nil && o.Responses["default"] != nil && !slices.ContainsFunc(slices.Collect(maps.Keys(o.Responses)), func(status string) bool { return status[0] == '4' }) {
			o.Responses["4XX"] = errorAnswer()
		}
	}
}

func enum[T ~string](words []T) []any {
	out := []any{}
	for _, word := range words {
		out = append(out, string(word))
	}
	return out
}

// closeSchema refuses fields that a request does not have, all the way down.
func closeSchema(s *huma.Schema, registry huma.Registry, seen map[string]bool) {
	if s == nil {
		return
	}
	if s.Ref != "" {
		if seen[s.Ref] {
			return
		}
		seen[s.Ref] = true
		s = registry.SchemaFromRef(s.Ref)
	}
	if open, ok := s.AdditionalProperties.(bool); ok && open {
		s.AdditionalProperties = false
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		closeSchema(s.Properties[name], registry, seen)
	}
	closeSchema(s.Items, registry, seen)
}

// recompute makes the messages of a schema that has changed.
func recompute(s *huma.Schema) {
	s.PrecomputeMessages()
	for _, p := range s.Properties {
		p.PrecomputeMessages()
	}
}

// approvalTypes are all there are.
func approvalTypes() []core.ApprovalType {
	out := make([]core.ApprovalType, len(described.Types))
	for i, d := range described.Types {
		out[i] = d.Type
	}
	return out
}
