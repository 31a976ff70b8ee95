package env

import (
	"fmt"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonc"
)

const (
	maxFile  = 1 << 20 // bytes of a configuration file
	maxDepth = 64      // of nested objects and lists
)

// file is a configuration file as it was read.
type file struct {
	name   string // path, as messages show it
	origin Origin
	layer  layer
	pos    map[string]core.Position // of each value, by JSON pointer
}

// place is where a value of the merged configuration was written.
type place struct {
	origin  Origin
	file    *file
	pointer string // within the file
}

// parseJSONC reads JSON with comments. Trailing commas are faults, but do not
// hide what else is wrong; any other mistake of syntax ends the reading. ok
// says whether there is a tree.
func parseJSONC(data []byte) (doc *jsonc.Doc, faults []core.Fault, ok bool) {
	if len(data) > maxFile {
		return nil, []core.Fault{{Message: fmt.Sprintf("the file has %d bytes; at most %d are read", len(data), maxFile)}}, false
	}
	doc, wrong := jsonc.Parse(data, maxDepth)
	for _, at := range doc.Commas {
		faults = append(faults, doc.Fault(at, "trailing comma: remove it"))
	}
	if wrong != nil {
		return doc, append(faults, doc.Fault(wrong.Offset, "%s", wrong.Reason)), false
	}
	return doc, faults, true
}

// pointer appends a name to a JSON pointer.
func pointer(at, name string) string {
	return at + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
