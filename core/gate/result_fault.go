package gate

import (
	"encoding/json"
	"sync"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
)

const (
	// checkedResult bounds the results that are compared with an output schema: to read a
	// long one once more costs more than the call.
	checkedResult = 64 << 10
	// maxFaulty bounds of how many tools in runs it is kept that a line has been written.
	maxFaulty = 1000
)

// faulty are the tools whose results did not match their output schemas, each with its run.
type faulty struct {
	mu   sync.Mutex
	said map[faultyTool]bool
}

type faultyTool struct {
	run  core.ID
	tool string
}

// first reports whether a tool has not been named before for a run.
func (f *faulty) first(t faultyTool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.said[t] {
		return false
	}
	if f.said == nil || len(f.said) >= maxFaulty {
		f.said = map[faultyTool]bool{} // a line that comes twice is no harm
	}
	f.said[t] = true
	return true
}

// unlike says in what the result of a server does not match the output schema of its
// tool. The call was made, and many servers do not keep to their schemas, so the result
// is passed on as it is: a line in the log of the run says it once for each tool, and the
// process writes it once.
func (h *Host) unlike(s *settings, call engine.Call, tool core.Tool, result json.RawMessage, progress func(string)) string {
	if len(tool.OutputSchema) == 0 || len(result) > checkedResult {
		return ""
	}
	fault := h.o.Upstream.ResultFault(tool, result, true)
	if fault == "" {
		return ""
	}
	said := core.Visible(s.redact.String(fault), 1000, false)
	if h.faulty.first(faultyTool{tool: call.Tool}) {
		h.o.Logger.Warn("a server's result is not what its schema says", "tool", call.Tool, "result", said)
	}
	if h.faulty.first(faultyTool{call.RunID, call.Tool}) {
		progress("warn: the result of " + core.Visible(call.Tool, 120, false) + " " + said + "; it is passed on as it is")
	}
	return fault
}
