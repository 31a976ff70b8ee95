package where

import (
	"encoding/json"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/casys-ai/pml/core"
)

// kind is what sort of value something is.
type kind int

const (
	kindAny kind = iota // not known before the call
	kindNull
	kindBool
	kindNumber
	kindString
	kindList
	kindMap
	kindBad // a number that nobody can calculate with
)

// name is what type(x) says.
func (k kind) name() string {
	return [...]string{"any", "null", "bool", "number", "string", "list", "object", "number"}[k]
}

// String is the kind within a sentence.
func (k kind) String() string {
	return [...]string{"something", "null", "true or false", "a number", "a text", "a list", "an object", "a number that is too large"}[k]
}

// kindOf is the kind of a value as plain returns it. A number that plain could not read
// is still a json.Number here: kindBad, with which nothing is done.
func kindOf(v any) kind {
	switch v.(type) {
	case nil:
		return kindNull
	case bool:
		return kindBool
	case int64, float64, *big.Int:
		return kindNumber
	case string:
		return kindString
	case []any:
		return kindList
	case map[string]any:
		return kindMap
	}
	return kindBad
}

// comparable reports whether two kinds may be asked to be equal: those that are the same,
// any with null, and any that is not known before the call.
func comparable(a, b kind) bool {
	if a == kindBad || b == kindBad {
		return false
	}
	return a == b || a == kindAny || b == kindAny || a == kindNull || b == kindNull
}

// machine is one evaluation.
type machine struct {
	call  *Call
	given [2]any // decoded arguments and result
	read  [2]bool
	item  any // the element that a predicate is at
	done  int
}

// work counts what has been done, in steps of some 50 ns.
func (m *machine) work(n int) error {
	m.done += 1 + n
	if m.done > maxWork {
		return core.Errorf(core.CodePermissionDenied, "the condition takes too long for the values of this call")
	}
	return nil
}

// args decodes the arguments when a condition first asks for them; a call without any
// has an empty object, so that `"x" in args` has an answer.
func (m *machine) args() (any, error) {
	v, err := m.decoded(0, m.call.Args)
	if v == nil && err == nil {
		v = map[string]any{}
	}
	return v, err
}

func (m *machine) result() (any, error) { return m.decoded(1, m.call.Result) }

// decoded is an input of the call as values. Raw JSON is decoded once for each
// evaluation; what the caller has decoded for several conditions is taken as it is.
func (m *machine) decoded(i int, v any) (any, error) {
	raw, ok := v.(json.RawMessage)
	if !ok {
		return plain(v), nil
	}
	if !m.read[i] {
		var err error
		if m.given[i], err = Decode(raw); err != nil {
			return nil, err
		}
		m.read[i] = true
	}
	return plain(m.given[i]), nil
}

// plain is a value as the operators know it. Integers stay exact; a number with a
// fraction or an exponent is what a float64 makes of it, which is how servers read it.
func plain(v any) any {
	n, ok := v.(json.Number)
	if !ok {
		if i, ok := v.(int); ok {
			return int64(i)
		}
		return v
	}
	s := string(n)
	if strings.ContainsAny(s, ".eE") {
		if f, err := strconv.ParseFloat(s, 64); err == nil {
			return f
		}
		return v
	}
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return i
	}
	if len(s) <= 100 {
		if b, ok := new(big.Int).SetString(s, 10); ok {
			return b
		}
	}
	return v
}

// failed is the error of an evaluation, at its place in the condition. Messages name
// kinds and never values, which may be secret.
func failed(at core.Position, format string, args ...any) error {
	err := core.Errorf(core.CodePermissionDenied, format, args...)
	err.Location = &at
	return err
}

// two evaluates both sides of an operator, the left one first.
func (m *machine) two(l, r node) (any, any, error) {
	a, err := l(m)
	if err != nil {
		return nil, nil, err
	}
	b, err := r(m)
	if err != nil {
		return nil, nil, err
	}
	return a, b, m.work(0)
}

// boolean evaluates what must be true or false. Nothing else is: an empty list or 0 in a
// condition is a mistake, not false.
func (m *machine) boolean(n node, at core.Position) (bool, error) {
	v, err := n(m)
	if err != nil {
		return false, err
	}
	b, ok := v.(bool)
	if !ok {
		return false, failed(at, "%s stands where true or false is needed", kindOf(v))
	}
	return b, m.work(0)
}

// text evaluates what must be a text.
func (m *machine) text(n node, at core.Position) (string, error) {
	v, err := n(m)
	if err != nil {
		return "", err
	}
	s, ok := v.(string)
	if !ok {
		return "", failed(at, "%s stands where a text is needed", kindOf(v))
	}
	return s, m.work(0)
}

// lookup reads a field or an element, and says whether it is there; label is how the
// expression names it. Elements are counted from 0, and from -1 at the end.
func (m *machine) lookup(from, key any, at core.Position, label string) (any, bool, error) {
	switch from := from.(type) {
	case map[string]any:
		name, ok := key.(string)
		if !ok {
			return nil, false, failed(at, "a key of an object is a text, not %s", kindOf(key))
		}
		v, there := from[name]
		return plain(v), there, m.work(0)
	case []any:
		if name, ok := key.(string); ok {
			return nil, false, failed(at, "a list has no .%s%s", core.OneLine(name, 40), sizeHint(label, name))
		}
		i, ok := key.(int64)
		if !ok {
			return nil, false, failed(at, "an element of a list has a number, not %s", kindOf(key))
		}
		if i < 0 {
			i += int64(len(from))
		}
		if i < 0 || i >= int64(len(from)) {
			return nil, false, nil
		}
		return plain(from[i]), true, m.work(0)
	}
	name, _ := key.(string)
	return nil, false, failed(at, "there is no %s: it would be of %s%s", label, kindOf(from), sizeHint(label, name))
}

// sizeHint says how a size is asked for, where somebody wrote it as a field, as other languages
// have it; label is the field as the expression names it.
func sizeHint(label, name string) string {
	of, ok := strings.CutSuffix(label, "."+name)
	if !ok || !slices.Contains([]string{"length", "len", "size", "count"}, name) {
		return ""
	}
	return "; use size(" + strings.TrimSuffix(of, "?") + ")"
}

// among reports whether a list has a value. Where it has not, an element of another
// kind is an error: nobody knows what the server takes it for.
func (m *machine) among(v any, list []any, at core.Position) (any, error) {
	other := kindAny
	for _, e := range list {
		e = plain(e)
		if !comparable(kindOf(v), kindOf(e)) {
			other = kindOf(e)
			if err := m.work(0); err != nil {
				return nil, err
			}
			continue
		}
		if same, err := m.equal(v, e); err != nil || same {
			return same, err
		}
	}
	if other != kindAny {
		return nil, failed(at, "%s cannot be compared with %s", kindOf(v), other)
	}
	return false, nil
}

// equal compares two values, whole lists and objects too. Within them, elements of
// unlike kinds are not equal, without an error: the whole is what was compared. Each
// step is charged, so that two large values cannot take longer than the bound on work.
func (m *machine) equal(a, b any) (bool, error) {
	a, b = plain(a), plain(b)
	if err := m.work(0); err != nil {
		return false, err
	}
	if kindOf(a) == kindBad || kindOf(b) == kindBad {
		return false, core.Errorf(core.CodePermissionDenied, "a number is too large to be compared")
	}
	if kindOf(a) != kindOf(b) {
		return false, nil
	}
	switch x := a.(type) {
	case nil:
		return true, nil
	case bool:
		return x == b.(bool), nil
	case string:
		y := b.(string)
		return x == y, m.work(min(len(x), len(y)) / 256)
	case []any:
		y := b.([]any)
		if len(x) != len(y) {
			return false, nil
		}
		for i := range x {
			if same, err := m.equal(x[i], y[i]); err != nil || !same {
				return false, err
			}
		}
		return true, nil
	case map[string]any:
		y := b.(map[string]any)
		if len(x) != len(y) {
			return false, nil
		}
		for k := range x {
			other, there := y[k]
			if !there {
				return false, nil
			}
			if same, err := m.equal(x[k], other); err != nil || !same {
				return false, err
			}
		}
		return true, nil
	}
	return compareNumbers(a, b) == 0, nil
}

// compareNumbers compares exactly what two numbers are.
func compareNumbers(a, b any) int {
	x, ok1 := a.(int64)
	y, ok2 := b.(int64)
	if ok1 && ok2 {
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	}
	return exact(a).Cmp(exact(b))
}

// exact is a number without rounding: an int64 beside a float64 must not be compared as
// float64, in which 2^53 and 2^53+1 are one.
func exact(v any) *big.Rat {
	switch v := v.(type) {
	case int64:
		return new(big.Rat).SetInt64(v)
	case float64:
		if r := new(big.Rat).SetFloat64(v); r != nil {
			return r
		}
	case *big.Int:
		return new(big.Rat).SetInt(v)
	}
	return new(big.Rat)
}

// calculate does what an operator says; an integer that does not fit is an error, not
// another integer.
func calculate(op string, a, b any, at core.Position) (any, error) {
	x, ok1 := a.(int64)
	y, ok2 := b.(int64)
	if ok1 && ok2 && op != "/" {
		return integers(op, x, y, at)
	}
	f, ok1 := float(a)
	g, ok2 := float(b)
	if !ok1 || !ok2 || op == "%" {
		return nil, failed(at, "%s cannot be calculated of %s and %s", op, kindOf(a), kindOf(b))
	}
	var v float64
	switch op {
	case "+":
		v = f + g
	case "-":
		v = f - g
	case "*":
		v = f * g
	default:
		v = f / g
	}
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return nil, failed(at, "%s has no result for these numbers", op)
	}
	return v, nil
}

// integers calculates with two integers, exactly. A quotient is a float64 always, see
// calculate: 7/2 is 3.5.
func integers(op string, x, y int64, at core.Position) (any, error) {
	if op == "%" {
		if y == 0 {
			return nil, failed(at, "%% has no result for these numbers")
		}
		return x % y, nil
	}
	v, a, b := new(big.Int), big.NewInt(x), big.NewInt(y)
	switch op {
	case "+":
		v.Add(a, b)
	case "-":
		v.Sub(a, b)
	default:
		v.Mul(a, b)
	}
	if !v.IsInt64() {
		return nil, failed(at, "the result of %s is too large", op)
	}
	return v.Int64(), nil
}

// float is a number to calculate with; an integer that a float64 does not hold is none.
func float(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), v <= 1<<53 && v >= -1<<53
	case float64:
		return v, true
	}
	return 0, false
}
