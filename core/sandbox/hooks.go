package sandbox

import (
	"encoding/json"

	"github.com/casys-ai/pml/core"
)

// The hooks are what the bootstrap calls. They get strings, numbers and
// booleans only, made by the bootstrap and never by the script.

func (v *jsVM) onCall(args []any) (any, error) {
	raw := str(args, 3)
	v.argBytes += int64(len(raw))
	if int64(len(raw)) > v.limits.ResultBytes || v.argBytes > v.limits.turnArgBytes() {
		return nil, v.stop(core.Errorf(core.CodeResultTooLarge, "the arguments of %s:%s are %d bytes, those of all calls until then %d: the limits are %d and %d; write data to a file and pass its path",
			str(args, 1), str(args, 2), len(raw), v.argBytes, v.limits.ResultBytes, v.limits.turnArgBytes()))
	}
	if err := core.CheckDepth("the argument of "+str(args, 1)+":"+str(args, 2), []byte(raw)); err != nil {
		return nil, v.stop(core.AsError(err))
	}
	c := wireCall{ID: int(num(args, 0)), Server: str(args, 1), Tool: str(args, 2), Args: json.RawMessage(raw), After: num(args, 5)}
	return nil, v.addCall(c, str(args, 4))
}

func (v *jsVM) onSleep(args []any) (any, error) {
	return nil, v.addCall(wireCall{ID: int(num(args, 0)), Timer: true, Sleep: num(args, 1), After: num(args, 3)}, str(args, 2))
}

func (v *jsVM) addCall(c wireCall, stack string) error {
	if len(v.turn.Calls) >= maxTurnCalls {
		return v.stop(core.Errorf(core.CodeCallLimit, "the script started more than %d calls without waiting for one: await them in groups", maxTurnCalls))
	}
	if frames := userFrames(stack, 1); len(frames) > 0 {
		c.Site = frames[0].at
		c.At = v.source(c.Site)
	}
	v.turn.Calls = append(v.turn.Calls, c)
	return nil
}

func (v *jsVM) onCancel(args []any) (any, error) {
	v.turn.Cancelled = append(v.turn.Cancelled, int(num(args, 0)))
	return nil, nil
}

// onLog returns true when there is no more room, so that the bootstrap stops
// formatting.
func (v *jsVM) onLog(args []any) (any, error) {
	text := str(args, 1)
	v.logBytes += int64(len(text)) + 8
	if v.logBytes > v.limits.LogBytes || len(v.turn.Logs) >= maxTurnCalls {
		if !v.logFull {
			v.logFull = true
			v.turn.Logs = append(v.turn.Logs, Log{Level: "warn", Text: "console output is past its limit; the rest of it is dropped"})
		}
		return true, nil
	}
	v.turn.Logs = append(v.turn.Logs, Log{Level: str(args, 0), Text: text})
	return false, nil
}

func (v *jsVM) onDone(args []any) (any, error) {
	s := str(args, 0)
	if int64(len(s)) > v.limits.ResultBytes {
		return nil, v.stop(core.Errorf(core.CodeResultTooLarge, "the script has run to its end, but its result is %d bytes, more than the limit of %d. Its calls were made and are journaled; nothing of them is lost. A blob that large is no result: have a tool keep it (mcp.workspace.write_file) and return its path; a script reads the limit as pml.limits.result_bytes. Or raise limits.result_bytes (for a script it counts up to %d) and retry the run, which makes no call again",
			len(s), v.limits.ResultBytes, MaxResultBytes))
	}
	if err := core.CheckDepth("the result", []byte(s)); err != nil {
		return nil, v.stop(core.AsError(err))
	}
	v.turn.Done, v.turn.Result = true, json.RawMessage(s)
	return nil, nil
}

func (v *jsVM) onFail(args []any) (any, error) {
	e, fatal := v.scriptError(args)
	if fatal {
		return nil, v.stop(e)
	}
	v.turn.Done, v.turn.Err = true, e
	return nil, nil
}

func (v *jsVM) onLost(args []any) (any, error) {
	e, fatal := v.scriptError(args)
	if fatal {
		return nil, v.stop(e)
	}
	v.turn.Unhandled = e
	return nil, nil
}

func str(args []any, i int) string {
	if i < len(args) {
		s, _ := args[i].(string)
		return s
	}
	return ""
}

func num(args []any, i int) int64 {
	if i >= len(args) {
		return 0
	}
	switch n := args[i].(type) {
	case int:
		return int64(n)
	case int64:
		return n
	case float64:
		return int64(n)
	}
	return 0
}
