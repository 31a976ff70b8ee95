package env

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
)

const (
	maxFlow      = 1 << 20 // bytes of a flow's file
	maxFlows     = 500     // files
	maxFlowDepth = 8       // of folders in each other
)

// flowFile is one file of the folder of flows; name is its path from there.
type flowFile struct {
	name string
	data []byte
}

// isFlow reports whether a file of the folder of flows is one, by its name: pml
// reads those in JSON only, and must not pass over the others.
func isFlow(name string) bool {
	return slices.Contains([]string{".json", ".jsonc", ".json5", ".yaml", ".yml"}, strings.ToLower(path.Ext(name)))
}

// readFlows reads the folder of flows and those in it, so that what is trusted and
// what runs are the same bytes.
func (c *Config) readFlows() []core.Fault {
	p, _ := c.find("/flows")
	if p.origin == FromWorkspace {
		if rel, err := filepath.Rel(c.Workspace.Dir, c.Flows); err != nil || !filepath.IsLocal(rel) {
			at := p.file.pos[p.pointer]
			return []core.Fault{{File: p.file.name, At: &at, Path: p.pointer, Message: "must be a folder within the workspace"}}
		}
	}
	return c.readFlowsIn("", 1)
}

func (c *Config) readFlowsIn(sub string, depth int) (faults []core.Fault) {
	dir := filepath.Join(c.Flows, filepath.FromSlash(sub))
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return []core.Fault{{File: dir, Message: "the folder of flows cannot be read"}}
	case depth > maxFlowDepth:
		return []core.Fault{{File: dir, Message: fmt.Sprintf("is nested more than %d deep in the folder of flows", maxFlowDepth)}}
	}
	for _, e := range entries {
		name := path.Join(sub, e.Name())
		at := filepath.Join(dir, e.Name())
		switch {
		case e.IsDir():
			faults = append(faults, c.readFlowsIn(name, depth+1)...)
			continue
		case !isFlow(e.Name()):
			if info, err := os.Stat(at); err == nil && info.IsDir() {
				faults = append(faults, core.Fault{File: at, Message: "is a link to a folder; the folder of flows must hold its flows itself"})
			}
			continue
		case len(c.flows) == maxFlows:
			return append(faults, core.Fault{File: c.Flows, Message: fmt.Sprintf("has more than %d flows", maxFlows)})
		}
		data, fault := readBounded(at, maxFlow)
		if fault != nil {
			faults = append(faults, *fault)
			continue
		}
		c.flows = append(c.flows, flowFile{name: name, data: data})
	}
	return faults
}

// FlowFiles returns the flows by file name, as they were when the
// configuration was loaded: the bytes that the trust covers.
func (c *Config) FlowFiles() map[string][]byte {
	out := make(map[string][]byte, len(c.flows))
	for _, f := range c.flows {
		out[f.name] = f.data
	}
	return out
}
