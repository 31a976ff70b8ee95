package analyze

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Literals are nil, bool, float64, string, []any, *object and undefined.
type undefined struct{}

type object struct {
	keys []string
	vals map[string]any
}

func (o *object) put(key string, v any) {
	if _, ok := o.vals[key]; !ok {
		o.keys = append(o.keys, key)
	}
	o.vals[key] = v
}

func primitive(v any) bool {
	switch v.(type) {
	case []any, *object, noLiteral:
		return false
	}
	return true
}

// encode writes a literal as JSON.stringify would.
func encode(v any) json.RawMessage {
	var b strings.Builder
	write(&b, v)
	return json.RawMessage(b.String())
}

func write(b *strings.Builder, v any) {
	switch v := v.(type) {
	case bool:
		b.WriteString(strconv.FormatBool(v))
	case float64:
		b.WriteString(number(v))
	case string:
		writeString(b, v)
	case []any:
		b.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			write(b, e)
		}
		b.WriteByte(']')
	case *object:
		b.WriteByte('{')
		n := 0
		for _, k := range v.keys {
			if _, skip := v.vals[k].(undefined); skip {
				continue
			}
			if n++; n > 1 {
				b.WriteByte(',')
			}
			writeString(b, k)
			b.WriteByte(':')
			write(b, v.vals[k])
		}
		b.WriteByte('}')
	default:
		b.WriteString("null")
	}
}

func writeString(b *strings.Builder, s string) {
	var tail strings.Builder
	enc := json.NewEncoder(&tail)
	enc.SetEscapeHTML(false)
	if enc.Encode(s) == nil {
		b.WriteString(strings.TrimSuffix(tail.String(), "\n"))
	}
}

// number writes a number as JavaScript does: encoding/json has the same rules.
func number(f float64) string {
	if f == 0 || math.IsInf(f, 0) || math.IsNaN(f) {
		return "0"
	}
	raw, err := json.Marshal(f)
	if err != nil {
		return "0"
	}
	return string(raw)
}

// text is a literal inside a template or a concatenation.
func text(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1e15 {
			return number(v), true
		}
	}
	return "", false
}

// sound reports whether a string came through unharmed: half surrogate pairs
// become U+FFFD, which JavaScript would have kept.
func sound(s string) bool { return !strings.ContainsRune(s, utf8.RuneError) }
