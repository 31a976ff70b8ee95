package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"

	"github.com/casys-ai/pml/core"
)

// handle is how a script names a result that was too large for the model.
var handle = regexp.MustCompile(`\bh([1-9][0-9]{0,3})\b`)

// maxNamed bounds how many of them a script may name.
const maxNamed = 32

// shown is what a model is shown of an outcome. What tools have returned is data: it is
// fenced, and the instructions say what that means. Of a large result it is shown the
// beginning, and told the handle under which a later script has it whole.
func (l *Loop) shown(o Outcome) (text string, failed bool) {
	if o.Err != nil {
		return "failed (" + string(o.Err.Code) + "): " + cut(o.Err.Error(), maxResult), true
	}
	if o.Tools != "" {
		return "nothing was run: the intent does not say all that a tool needs. Give code; these fit best:\n" + fence(cut(o.Tools, maxResult)), false
	}
	result := o.Result
	if len(result) == 0 {
		result = core.Null
	}
	var b bytes.Buffer
	if json.Compact(&b, result) == nil {
		result = b.Bytes()
	}
	if len(result) <= maxResult {
		return fence(string(result)), false
	}
	text = fence(cut(string(result), maxResult))
	if o.ID == "" {
		return fmt.Sprintf("%s\n(the first %d of %d bytes; let the script return less)", text, maxResult, len(result)), false
	}
	l.handles = append(l.handles, o.ID)
	return fmt.Sprintf("%s\n(the first %d of %d bytes; a later script has the whole value as results.h%d)", text, maxResult, len(result), len(l.handles)), false
}

// named are the runs whose results a script names, by handle.
func (l *Loop) named(code string) (out map[string]core.ID) {
	for _, m := range handle.FindAllStringSubmatch(code, -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil || n > len(l.handles) || len(out) == maxNamed {
			continue
		}
		if out == nil {
			out = map[string]core.ID{}
		}
		out[m[0]] = l.handles[n-1]
	}
	return out
}

// keptHandles names the handles that there are, for whoever knows the results from a summary only.
func (l *Loop) keptHandles() string {
	if len(l.handles) == 0 {
		return ""
	}
	return fmt.Sprintf("\n\nScripts still have large results of yours, whole: results.h1 to results.h%d.", len(l.handles))
}
