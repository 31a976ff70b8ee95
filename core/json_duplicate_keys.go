package core

import (
	"bytes"
	"encoding/json"
	"slices"
	"unicode/utf8"
)

// CheckKeys is the error of a JSON value in which an object has a member twice,
// nil for any other. Readers differ in which of the two counts, so that what was shown
// need not be what is done. What is no JSON is for its reader to refuse. what names the
// value, such as "the input".
func CheckKeys(what string, raw []byte) error {
	if key, doubled := doubledKey(raw); doubled {
		return Errorf(CodeInvalidArguments, "%s has the member %q twice, of which each reader may take another; leave one out", what, Visible(key, 100, false))
	}
	return nil
}

// doubledKey finds a name that an object has twice. It is on the way of every call, so
// it reads the bytes once and keeps names as they stand there.
func doubledKey(raw []byte) (key string, doubled bool) {
	var open []members // objects and arrays in each other
	name := false      // a name comes next
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '{', '[':
			name = raw[i] == '{'
			open = append(open, members{object: name})
		case '}', ']':
			if len(open) == 0 {
				return "", false
			}
			open, name = open[:len(open)-1], false
		case ',':
			name = len(open) > 0 && open[len(open)-1].object
		case '"':
			end := endOfString(raw, i)
			if end < 0 {
				return "", false
			}
			if name {
				own, ok := nameOf(raw[i : end+1])
				if !ok {
					return "", false
				}
				if open[len(open)-1].add(own) {
					return string(own), true
				}
				name = false
			}
			i = end
		}
	}
	return "", false
}

// endOfString is where the string ends that begins at a quote; -1: nowhere.
func endOfString(raw []byte, at int) int {
	for i := at + 1; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

// nameOf is what a quoted name says, as encoding/json reads it.
func nameOf(quoted []byte) (name []byte, ok bool) {
	name = quoted[1 : len(quoted)-1]
	if !slices.Contains(name, '\\') && utf8.Valid(name) {
		return name, true
	}
	var text string
	if json.Unmarshal(quoted, &text) != nil {
		return nil, false
	}
	return []byte(text), true
}

// members are the names that an object has so far: the first few in a list.
type members struct {
	object bool
	few    [][]byte
	many   map[string]bool
}

const fewMembers = 16

// add reports whether the name is there already.
func (m *members) add(name []byte) bool {
	if m.many != nil {
		if m.many[string(name)] {
			return true
		}
		m.many[string(name)] = true
		return false
	}
	if slices.ContainsFunc(m.few, func(n []byte) bool { return bytes.Equal(n, name) }) {
		return true
	}
	if m.few = append(m.few, name); len(m.few) > fewMembers {
		m.many = make(map[string]bool, 2*fewMembers)
		for _, n := range m.few {
			m.many[string(n)] = true
		}
	}
	return false
}
