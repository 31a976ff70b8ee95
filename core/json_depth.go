package core

// MaxDepth is how deeply arrays and objects of foreign JSON may be nested.
// encoding/json reads nothing deeper than 10,000 levels, and every envelope
// around a value adds some: what is let in must stay readable in all of them.
const MaxDepth = 500

// TooDeep reports whether a JSON value is nested more deeply than MaxDepth. It
// stops where that is certain, and allocates nothing.
func TooDeep(raw []byte) bool { return depth(raw, MaxDepth) > MaxDepth }

// Depth returns how deeply arrays and objects are nested in a JSON value: 0 for
// a number, 1 for []. Of what is no valid JSON it counts what is open at once.
func Depth(raw []byte) int { return depth(raw, len(raw)) }

// CheckDepth is the error of a JSON value that is nested too deeply, nil for any
// other. what names it, such as "the input".
func CheckDepth(what string, raw []byte) error {
	if !TooDeep(raw) {
		return nil
	}
	return Errorf(CodeInvalidArguments, "%s is nested more than %d levels deep; make it flatter", what, MaxDepth)
}

// depth stops once it is past limit.
func depth(raw []byte, limit int) (deepest int) {
	open := 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '{', '[':
			if open++; open > deepest {
				if deepest = open; deepest > limit {
					return deepest
				}
			}
		case '}', ']':
			open = max(0, open-1)
		case '"':
			for i++; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		}
	}
	return deepest
}
