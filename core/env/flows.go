package env

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
)

const (
	maxFlow      = 1 << 20 // bytes of a flow's file
	maxFlows     = 500     // files
	maxFlowDepth = 8       // of folders in each other
)

// isFlow reports whether a file of a folder of flows is one, by its name: pml
// reads those in JSON only, and must not pass over the others.
func isFlow(name string) bool {
	return slices.Contains([]string{".json", ".jsonc", ".json5", ".yaml", ".yml"}, strings.ToLower(path.Ext(name)))
}

// readFlows reads both folders of flows and those in them, so that what is trusted and
// what runs are the same bytes.
func (c *Config) readFlows() []core.Fault {
	home := flowReader{dir: c.HomeFlows, own: true}
	home.read("", 1)
	c.homeFlows = flow.Parse(home.files, true)
	if p, _ := c.find("/flows"); p.origin == FromWorkspace {
		if rel, err := filepath.Rel(c.Workspace.Dir, c.Flows); err != nil || !filepath.IsLocal(rel) {
			at := p.file.pos[p.pointer]
			return append(home.faults, core.Fault{File: p.file.name, At: &at, Path: p.pointer, Message: "must be a folder within the workspace"})
		}
	}
	work := flowReader{dir: c.Flows}
	work.read("", 1)
	c.workFlows = flow.Parse(work.files, false)
	c.readPrograms()
	return append(home.faults, work.faults...)
}

// flowReader reads a folder of flows.
type flowReader struct {
	dir    string
	own    bool // nobody else may be able to write to it
	files  map[string][]byte
	faults []core.Fault
}

func (r *flowReader) fault(file, format string, args ...any) {
	r.faults = append(r.faults, core.Fault{File: file, Message: fmt.Sprintf(format, args...)})
}

func (r *flowReader) read(sub string, depth int) {
	dir := filepath.Join(r.dir, filepath.FromSlash(sub))
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case err != nil:
		r.fault(dir, "the folder of flows cannot be read")
		return
	case depth > maxFlowDepth:
		r.fault(dir, "is nested more than %d deep in the folder of flows", maxFlowDepth)
		return
	}
	r.checkOwn(dir)
	for _, e := range entries {
		name, at := path.Join(sub, e.Name()), filepath.Join(dir, e.Name())
		switch {
		case e.IsDir():
			r.read(name, depth+1)
		case !isFlow(e.Name()):
			if info, err := os.Stat(at); err == nil && info.IsDir() {
				r.fault(at, "is a link to a folder; the folder of flows must hold its flows itself")
			}
		case len(r.files) == maxFlows:
			r.fault(r.dir, "has more than %d flows", maxFlows)
			return
		default:
			r.readFile(name, at)
		}
	}
}

func (r *flowReader) readFile(name, at string) {
	r.checkOwn(at)
	data, fault := readBounded(at, maxFlow)
	switch {
	case fault != nil:
		r.faults = append(r.faults, *fault)
	case r.files == nil:
		r.files = map[string][]byte{}
		fallthrough
	default:
		r.files[name] = data
	}
}

// checkOwn refuses what somebody else may write to where nobody is asked to trust it.
func (r *flowReader) checkOwn(name string) {
	info, err := os.Stat(name)
	if !r.own || err != nil {
		return
	}
	switch {
	case !ours(info):
		r.fault(name, "belongs to another user; flows of the home run without being trusted, so they must be your own")
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o022 != 0:
		r.fault(name, "can be written to by others (%s), and flows of the home run without being trusted; take that away (chmod go-w)", info.Mode().Perm())
	}
}

// HookFlows are the flows of the home, which hold for all workspaces, and those of the
// workspace, trusted or not: as they were when the configuration was loaded, which are
// the bytes that the trust covers.
func (c *Config) HookFlows() (home, workspace *flow.Folder) { return c.homeFlows, c.workFlows }
