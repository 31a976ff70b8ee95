package server

import (
	"maps"
	"slices"

	"github.com/casys-ai/pml/core"
	"github.com/danielgtaylor/huma/v2"
)

// tune says in the schemas what the types of Go cannot: which words a field
// takes, that a request has no other fields than these, and that a decision
// must be there. The handlers check by the same schemas.
func tune(doc *huma.OpenAPI) {
	schemas := doc.Components.Schemas
	all := schemas.Map()
	field := func(name, field string) *huma.Schema { return all[name].Properties[field] }

	for _, name := range []string{"DecisionBody", "ContinueWorkflow"} {
		field(name, "approved").Nullable = false
	}
	hil := field("ExecuteOptions", "hil")
	hil.Enum = []any{"", string(core.HILAlways), string(core.HILSideEffects), string(core.HILNever)}
	zero, one := 0.0, 1.0
	field("ExecuteOptions", "timeout").Minimum = &zero
	field("ExtendBody", "by_ms").Minimum = &one
	field("DecisionBody", "all_of_type").Enum = enum(approvalTypes)
	field("Trace", "state").Enum = enum(core.RunStates)
	field("Answer", "remember").Enum = []any{"", string(core.RememberRun), string(core.RememberSession), string(core.RememberRule)}
	field("Answer", "in_doubt").Enum = []any{"", string(core.RunAgain), string(core.SkipResult)}

	all["TaskSpec"].Properties["dependsOn"] = &huma.Schema{
		Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}, Description: "Another spelling of depends_on",
	}
	// The numbers of a result come together, once the run has ended.
	totals := []string{"replayed_calls", "successful_tasks", "failed_tasks"}
	res := all["Result"]
	res.Required = slices.DeleteFunc(res.Required, func(name string) bool { return slices.Contains(totals, name) })

	closed := map[string]bool{}
	for _, path := range doc.Paths {
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

var approvalTypes = []core.ApprovalType{
	core.ApproveDependency, core.ApproveKeys, core.ApproveIntegrity, core.ApproveTool, core.ApproveOAuth,
	core.ApproveLayer, core.ApproveInDoubt, core.ApproveHook,
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
