package env

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
)

// The bounds of the programs of flows that the trust covers.
const (
	maxPrograms = 200
	maxProgram  = 64 << 20 // bytes
)

// readPrograms digests the files of the workspace that the command nodes of its flows
// name, so that the trust in a flow ends with a change of what it starts.
func (c *Config) readPrograms() {
	c.flowPrograms = map[string]string{}
	for _, f := range c.workFlows.Flows {
		for _, n := range f.Nodes {
			for _, name := range c.programFiles(f, n) {
				if digest := c.programDigest(name); digest != "" && len(c.flowPrograms) < maxPrograms {
					c.flowPrograms[name] = digest
				}
			}
		}
	}
}

// programFiles are the paths within the workspace that the command line of a node may
// name, whether there is a file or not: its words, those of a line for a shell, and the
// files in which a program finds by itself what it runs.
func (c *Config) programFiles(f *flow.Flow, n *flow.Node) (names []string) {
	if n.Type != flow.TypeCommand || n.Data.Command == nil {
		return nil
	}
	fill := c.filler(n.Data.Command.Env)
	add := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, word := range f.CommandLine(n.Data.Command, c.Workspace.Dir, c.Home.Dir) {
		for _, w := range append([]string{word}, wordsOf(word)...) {
			w = fill(w)
			if !filepath.IsAbs(w) {
				w = filepath.Join(c.Workspace.Dir, w)
			}
			if rel, err := filepath.Rel(c.Workspace.Dir, w); err == nil && filepath.IsLocal(rel) {
				add(rel)
			}
		}
	}
	if _, files := finder(n.Data.Command); len(files) > 0 {
		for _, folder := range append([]string{"."}, names...) {
			for _, file := range files {
				add(filepath.Join(folder, file))
			}
		}
	}
	return names
}

// filler fills in the variables of a command node as a shell does: $AB is AB and not A, and
// the value of one may name the folder of the workspace.
func (c *Config) filler(variables map[string]string) func(string) string {
	values := maps.Clone(variables)
	if values == nil {
		values = map[string]string{}
	}
	values[flow.WorkspaceVariable] = c.Workspace.Dir
	longest := func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) }
	var pairs []string
	for _, name := range slices.SortedFunc(maps.Keys(values), longest) {
		pairs = append(pairs, "${"+name+"}", values[name], "$"+name, values[name])
	}
	once := strings.NewReplacer(pairs...)
	return func(text string) string { return once.Replace(once.Replace(text)) }
}

// unreadable stands for the digest of a file that is there and cannot be read whole:
// nobody can say that it is what was trusted.
const unreadable = "unreadable"

// programDigest is the digest of a file of the workspace; empty: there is none.
func (c *Config) programDigest(name string) string {
	path := filepath.Join(c.Workspace.Dir, name)
	info, err := os.Stat(path) // before it is opened: to open a pipe waits for a writer
	switch {
	case err != nil || !info.Mode().IsRegular():
		return ""
	case info.Size() > maxProgram:
		return unreadable
	}
	file, err := os.Open(path)
	if err != nil {
		return unreadable
	}
	defer file.Close()
	sum := sha256.New()
	if n, err := io.Copy(sum, io.LimitReader(file, maxProgram+1)); err != nil || n > maxProgram {
		return unreadable
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// CheckProgram refuses to start the program of a command node: of a flow of the workspace
// (core.CodeNotTrusted) when a file of the workspace that it names is not as it was when
// the configuration was loaded, which is what the trust covers; of a flow of the home
// (core.CodeInvalidConfig) when it names a file of a workspace at all, or would look for
// what it runs in one: a stranger may have put it there.
func (c *Config) CheckProgram(f *flow.Flow, n *flow.Node) error {
	if by, _ := finder(n.Data.Command); f.Home && by != "" {
		return core.Errorf(core.CodeInvalidConfig, "a flow of the home must not run what %s finds, as it looks in the workspace; name a program elsewhere by its whole path, or below ${%s}", by, flow.HomeVariable)
	}
	for _, name := range c.programFiles(f, n) {
		switch digest := c.programDigest(name); {
		case f.Home && digest != "":
			return core.Errorf(core.CodeInvalidConfig, "a flow of the home must not start a file of a workspace, and %s is one; name a program elsewhere by its whole path, or below ${%s}", core.Visible(name, 120, false), flow.HomeVariable)
		case digest == unreadable: // and was so when it was trusted, for all anybody knows
			return core.Errorf(core.CodeNotTrusted, "%s, which it starts, cannot be read whole (at most %d MiB are), so nobody can say that it is what was trusted", core.Visible(name, 120, false), maxProgram>>20)
		case !f.Home && digest != c.flowPrograms[name]:
			return core.Errorf(core.CodeNotTrusted, "%s, which it starts, has changed since it was trusted; look at it and trust it", core.Visible(name, 120, false)).WithNext("pml", "trust")
		}
	}
	return nil
}

// ExpandFlow fills in the variables that a text of a flow names, and says which values
// it has used. Flows of the workspace get those of .env, too.
func (c *Config) ExpandFlow(f *flow.Flow, text string) (value string, used map[string]string, err error) {
	if _, err := parseRefs(text); err != nil {
		return "", nil, core.Errorf(core.CodeInvalidConfig, "%w", err)
	}
	x := c.variables().expand(text, !f.Home)
	if len(x.unset) > 0 {
		return "", nil, core.Errorf(core.CodeInvalidConfig, "${%s} is not set; set it in the environment or in .env, or write ${%s:-default}", x.unset[0], x.unset[0])
	}
	return x.value, x.used, nil
}
