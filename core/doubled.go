package core

import (
	"bytes"
	"encoding/json"
)

// CheckKeys is the error of a JSON value in which an object has a member twice,
// nil for any other and for what is no JSON. Readers differ in which of the two
// counts, so that what was shown need not be what is done. what names the value,
// such as "the input".
func CheckKeys(what string, raw []byte) error {
	if key, doubled := doubledKey(raw); doubled {
		return Errorf(CodeInvalidArguments, "%s has the member %q twice, of which each reader may take another; leave one out", what, Visible(key, 100, false))
	}
	return nil
}

func doubledKey(raw []byte) (key string, doubled bool) {
	type object struct {
		seen map[string]bool // nil: an array
		name bool            // a name comes next
	}
	var open []object
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	for {
		token, err := dec.Token()
		if err != nil {
			return "", false
		}
		last := len(open) - 1
		switch t := token.(type) {
		case json.Delim:
			switch t {
			case '{':
				open = append(open, object{seen: map[string]bool{}, name: true})
				continue
			case '[':
				open = append(open, object{})
				continue
			}
			open = open[:last]
			last--
		case string:
			if last >= 0 && open[last].name {
				if open[last].seen[t] {
					return t, true
				}
				open[last].seen[t] = true
				open[last].name = false
				continue
			}
		}
		if last >= 0 && open[last].seen != nil {
			open[last].name = true // the value is over
		}
	}
}
