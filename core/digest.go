package core

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"math"
	"math/big"
	"sort"
	"strconv"
	"strings"
	"unicode/utf16"
)

// Digest returns "sha256:" and the hex SHA-256 of the canonical form of a JSON
// value (RFC 8785), so that key order and spacing do not matter. One thing
// differs: a number that a float64 cannot hold exactly keeps its literal text,
// so that two different numbers never share a digest. Empty input counts as
// null.
func Digest(value json.RawMessage) (string, error) {
	if len(bytes.TrimSpace(value)) == 0 {
		value = Null
	}
	dec := json.NewDecoder(bytes.NewReader(value))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return "", Errorf(CodeInvalidArguments, "not valid JSON: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF { // More takes a closing bracket for the end
		return "", Errorf(CodeInvalidArguments, "not valid JSON: something follows the value")
	}
	return digestOf(canonical(nil, v)), nil
}

func digestOf(canonical []byte) string {
	const prefix = "sha256:"
	sum := sha256.Sum256(canonical)
	var text [len(prefix) + 2*sha256.Size]byte
	copy(text[:], prefix)
	hex.Encode(text[len(prefix):], sum[:])
	return string(text[:])
}

// DigestOf returns the Digest of any value that encodes as JSON.
func DigestOf(value any) (string, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return "", Errorf(CodeInternal, "cannot encode for a digest: %w", err)
	}
	return Digest(raw)
}

func canonical(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case bool:
		return strconv.AppendBool(b, v)
	case json.Number:
		return canonicalNumber(b, v)
	case string:
		return canonicalString(b, v)
	case []any:
		b = append(b, '[')
		for i, e := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = canonical(b, e)
		}
		return append(b, ']')
	case map[string]any:
		return canonicalObject(b, v)
	}
	return b
}

func canonicalObject(b []byte, m map[string]any) []byte {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Slice(keys, func(i, j int) bool { return lessUTF16(keys[i], keys[j]) })
	b = append(b, '{')
	for i, k := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(canonicalString(b, k), ':')
		b = canonical(b, m[k])
	}
	return append(b, '}')
}

// lessUTF16 orders by UTF-16 code units, as RFC 8785 §3.2.3 asks.
func lessUTF16(a, b string) bool {
	x, y := utf16.Encode([]rune(a)), utf16.Encode([]rune(b))
	for i := 0; i < len(x) && i < len(y); i++ {
		if x[i] != y[i] {
			return x[i] < y[i]
		}
	}
	return len(x) < len(y)
}

func canonicalNumber(b []byte, n json.Number) []byte {
	f, err := n.Float64()
	if err != nil {
		return append(b, n...)
	}
	// encoding/json writes floats as ECMAScript does. A number with fewer than
	// 16 digits survives float64, unless it is next to zero; others are compared
	// exactly.
	short, err := json.Marshal(f)
	if err != nil {
		return append(b, n...)
	}
	if len(n) > 15 || math.Abs(f) < smallestNormal && n != "0" {
		exact, ok1 := new(big.Rat).SetString(limitExponent(string(n)))
		back, ok2 := new(big.Rat).SetString(limitExponent(string(short)))
		if !ok1 || !ok2 || exact.Cmp(back) != 0 {
			return append(b, n...)
		}
	}
	if f == 0 {
		return append(b, '0')
	}
	return append(b, short...)
}

// smallestNormal is the least float64 with full precision.
const smallestNormal = 0x1p-1022

// limitExponent refuses exponents that would make big.Rat allocate without
// bound; float64 ends near 1e308.
func limitExponent(s string) string {
	_, exp, ok := strings.Cut(strings.ToLower(s), "e")
	if !ok {
		return s
	}
	if e, err := strconv.Atoi(exp); err != nil || e > 400 || e < -400 {
		return ""
	}
	return s
}

const hexDigits = "0123456789abcdef"

func canonicalString(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch r {
		case '"', '\\':
			b = append(b, '\\', byte(r))
		case '\b':
			b = append(b, `\b`...)
		case '\f':
			b = append(b, `\f`...)
		case '\n':
			b = append(b, `\n`...)
		case '\r':
			b = append(b, `\r`...)
		case '\t':
			b = append(b, `\t`...)
		default:
			if r < 0x20 {
				b = append(b, `\u00`...)
				b = append(b, hexDigits[r>>4], hexDigits[r&0xf])
			} else {
				b = append(b, string(r)...)
			}
		}
	}
	return append(b, '"')
}
