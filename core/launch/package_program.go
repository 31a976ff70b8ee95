package launch

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
)

// Package is an installed package: below the folder Dir is its node_modules.
type Package struct{ Dir, Name, Version string }

// Description is what pml reads of a package's own package.json.
type Description struct {
	Version string          `json:"version"`
	Bin     json.RawMessage `json:"bin"`
}

// Describe reads the package.json of a package that is installed below a folder.
// What cannot be read is core.CodeInstallFailed.
func Describe(dir, name string) (Description, error) {
	file := filepath.Join(dir, "node_modules", filepath.FromSlash(name), "package.json")
	raw, err := os.ReadFile(file)
	var pkg Description
	if err == nil {
		err = json.Unmarshal(raw, &pkg)
	}
	if err != nil {
		return Description{}, core.Errorf(core.CodeInstallFailed, "cannot read the description of %s: %w", name, err)
	}
	return pkg, nil
}

// Program returns the program and arguments that start an installed package: the
// file that npx would choose, run by node when it says so, with the node flags
// of its first line. Nothing is started. A missing node is
// core.CodeInstallFailed.
func (f *Files) Program(p Package, spec Spec) (command string, args []string, err error) {
	pkg, err := Describe(p.Dir, p.Name)
	if err != nil {
		return "", nil, err
	}
	file, err := chooseBin(p, spec, pkg.Bin)
	if err != nil {
		return "", nil, err
	}
	flags, isNode, err := nodeFlags(file)
	if err != nil {
		return "", nil, err
	}
	if !isNode {
		return file, slices.Clone(spec.ServerArgs), nil
	}
	node, err := f.o.LookPath("node")
	if err != nil {
		return "", nil, core.Errorf(core.CodeInstallFailed, "node is not on PATH; MCP servers from npm need it: install Node.js 18 or newer")
	}
	args = slices.Concat(spec.NodeArgs, flags, []string{file}, spec.ServerArgs)
	return node, args, nil
}

// chooseBin finds the file to run: the one that the command names, else the
// only one, else the one with the package's name.
func chooseBin(p Package, spec Spec, raw json.RawMessage) (string, error) {
	bins := map[string]string{}
	short := path.Base(p.Name)
	var single string
	if json.Unmarshal(raw, &single) == nil && single != "" {
		bins[short] = single
	} else if len(raw) > 0 {
		if err := json.Unmarshal(raw, &bins); err != nil {
			return "", core.Errorf(core.CodeInstallFailed, "%s@%s describes its programs in a way that cannot be read: %w", p.Name, p.Version, err)
		}
	}
	names := slices.Sorted(maps.Keys(bins))
	targets := slices.Compact(slices.Sorted(maps.Values(bins)))
	rel := ""
	switch {
	case spec.Bin != "":
		rel = bins[spec.Bin]
	case len(targets) == 1:
		rel = targets[0]
	default:
		rel = bins[short]
	}
	root := filepath.Join(p.Dir, "node_modules")
	if rel != "" {
		return inside(root, filepath.Join(root, filepath.FromSlash(p.Name), filepath.FromSlash(rel)), p)
	}
	if spec.Bin != "" && !strings.HasPrefix(spec.Bin, ".") {
		// npx also finds the programs of dependencies.
		if file, err := filepath.EvalSymlinks(filepath.Join(root, ".bin", spec.Bin)); err == nil {
			return inside(root, file, p)
		}
	}
	if len(names) == 0 {
		return "", core.Errorf(core.CodeInstallFailed, "%s@%s has no program to run; is it an MCP server?", p.Name, p.Version)
	}
	return "", core.Errorf(core.CodeInstallFailed, "%s@%s has no program %q; it has: %s. Name one of them: npx -p %s PROGRAM",
		p.Name, p.Version, cmp.Or(spec.Bin, short), core.Visible(strings.Join(names, ", "), 300, false), p.Name)
}

// inside refuses a file that is not below the installed tree, where its hash
// would not be checked.
func inside(root, file string, p Package) (string, error) {
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return "", core.Errorf(core.CodeInstallFailed, "the program of %s@%s is missing: %w", p.Name, p.Version, err)
	}
	base, err := filepath.EvalSymlinks(root)
	if err != nil {
		return "", cannotRead(root, err)
	}
	if !strings.HasPrefix(real, base+string(filepath.Separator)) {
		return "", core.Errorf(core.CodeIntegrityFailed, "the program of %s@%s lies outside of its package: %s", p.Name, p.Version, core.Visible(real, 200, false))
	}
	return real, nil
}

// nodeFlags reads the first line of a program and says whether node runs it,
// and with which flags. A script without such a line is node's by its ending.
func nodeFlags(file string) (flags []string, node bool, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, false, cannotRead(file, err)
	}
	defer f.Close()
	line, err := bufio.NewReader(io.LimitReader(f, 4096)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, cannotRead(file, err)
	}
	rest, ok := strings.CutPrefix(line, "#!")
	if !ok {
		return nil, slices.Contains([]string{".js", ".cjs", ".mjs"}, filepath.Ext(file)), nil
	}
	words := strings.Fields(rest)
	if len(words) > 0 && program(words[0]) == "env" {
		words = words[1:]
		if len(words) > 0 && words[0] == "-S" {
			words = words[1:]
		}
	}
	if len(words) == 0 || program(words[0]) != "node" && program(words[0]) != "nodejs" {
		return nil, false, nil
	}
	return words[1:], true, nil
}

func cannotRead(file string, err error) error {
	return core.Errorf(core.CodeInstallFailed, "cannot read %s: %w; check the permissions and the free space there", file, err)
}
