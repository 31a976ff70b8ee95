package store

import (
	"encoding/json"
	"errors"

	"github.com/casys-ai/pml/core"
)

// maxDepth is how deeply a row may be nested: encoding/json reads nothing that is
// deeper than 10,000 levels, and answers put some around it.
const maxDepth = 9000

// Encode is a row as JSON. Error: core.CodeInvalidArguments for what could not be
// read again.
func Encode(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err == nil && TooDeep(raw) {
		err = errors.New("it is nested too deeply")
	}
	if err != nil {
		return nil, core.Errorf(core.CodeInvalidArguments, "cannot be stored: %w", err)
	}
	return raw, nil
}

// TooDeep reports whether a row is nested too deeply to be read. An older pml wrote
// such rows; they are not damaged.
func TooDeep(raw []byte) bool { return core.Depth(raw) > maxDepth }
