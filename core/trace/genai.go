package trace

import (
	"encoding/json"
	"strings"

	"go.opentelemetry.io/otel/attribute"

	"github.com/casys-ai/pml/core"
)

// genAI is a call in the words of OpenTelemetry's conventions for generative AI and for
// MCP (1.41, both in development), beside pml's own: names and numbers, never content.
// next are the events that were committed with the end of the call, behind it.
func genAI(e core.Event, next []core.Event) []attribute.KeyValue {
	operation := func(name string, more ...attribute.KeyValue) []attribute.KeyValue {
		return append([]attribute.KeyValue{attribute.String("gen_ai.operation.name", name)}, more...)
	}
	switch {
	case e.Tool == core.ModelTool:
		return operation("chat", answered(e, next)...)
	case e.Tool == core.RunTool:
		return operation("execute_tool", attribute.String("gen_ai.tool.name", "pml_execute"), attribute.String("gen_ai.tool.call.id", e.TaskID))
	case strings.HasPrefix(e.Tool, "pml:"):
		return nil // no tool: a piece of code, a pause
	}
	_, tool, ok := core.SplitTool(e.Tool)
	if !ok {
		return nil
	}
	return operation("execute_tool", attribute.String("gen_ai.tool.name", tool), attribute.String("gen_ai.tool.call.id", e.TaskID), attribute.String("mcp.method.name", "tools/call"))
}

// answered is what the answer of a model has used. Tokens of the provider's cache count as
// read, as the conventions say; where the provider has not said what was used, nothing is.
func answered(e core.Event, next []core.Event) (out []attribute.KeyValue) {
	for _, n := range next {
		if n.Type != core.EventAgentIteration || n.RunID != e.RunID || n.TaskID != e.TaskID {
			continue
		}
		var said struct {
			Model string          `json:"model"`
			Stop  string          `json:"stop"`
			Usage core.AgentUsage `json:"usage"`
		}
		if json.Unmarshal(n.Data, &said) != nil {
			return nil
		}
		out = append(out, attribute.String("gen_ai.request.model", said.Model), attribute.StringSlice("gen_ai.response.finish_reasons", []string{said.Stop}))
		u := said.Usage
		if prompt := u.Input + u.CacheRead + u.CacheWrite; prompt > 0 {
			out = append(out, attribute.Int("gen_ai.usage.input_tokens", prompt), attribute.Int("gen_ai.usage.output_tokens", u.Output),
				attribute.Int("gen_ai.usage.cache_read.input_tokens", u.CacheRead), attribute.Int("gen_ai.usage.cache_creation.input_tokens", u.CacheWrite))
		}
		return out
	}
	return nil
}
