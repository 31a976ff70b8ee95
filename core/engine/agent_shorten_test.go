package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/model"
)

// forgetful is a model that takes five messages at most. Once its conversation was
// summarised it makes one call more, and ends.
func forgetful(_ context.Context, _ core.Run, _ string, req model.Request) (model.Answer, error) {
	first := req.Messages[0].Text
	script := func(n int) (model.Answer, error) {
		a := model.Answer{Stop: model.StopTools, Usage: &model.Usage{Input: 10, Output: 5}, Blocks: json.RawMessage(blocks)}
		a.Calls = append(a.Calls, scriptCall(fmt.Sprint("toolu_", n), fmt.Sprintf(`await mcp.a.write({n: %d}); return "x".repeat(2000);`, n)))
		return a, nil
	}
	switch {
	case len(req.Tools) == 0:
		return said("SHORT"), nil
	case strings.Contains(first, "SHORT") && len(req.Messages) > 3:
		return said("done"), nil
	case strings.Contains(first, "SHORT"):
		return script(100)
	case len(req.Messages) > 5:
		return model.Answer{}, core.Errorf(core.CodeModelContext, "too long")
	}
	return script(len(req.Messages))
}
