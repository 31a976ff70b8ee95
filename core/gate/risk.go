package gate

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/asked"
)

// effect is what pml knows of what a call would do when it asks about it. What a
// server says of its tools only ever adds to the risk, but for one claim: a tool may
// say that it only reads, which its name must not contradict (believed).
type effect struct {
	builtin   bool   // it is a tool of pml's own workspace server
	unknown   bool   // the server is not ready: nothing is known of the tool
	reads     bool   // the tool only reads
	destroys  bool   // the tool or its name says that it destroys
	leaves    bool   // the call reaches beyond this machine
	outside   string // an argument that names a path outside of the workspace
	file      *asked.File
	executed  bool // other programs execute or obey the file
	deletions bool // a file is deleted
}

// fewLines is how many lines of a file a call may change at most, added and removed,
// to be of medium risk.
const fewLines = 200

// riskRule is a row of the table of docs/approvals.md: what a call does, and the risk
// of that.
type riskRule struct {
	when  string
	risk  core.Risk
	holds func(effect) bool
}

// riskRules is the whole rule: the first row that holds decides. docs/approvals.md has
// the same table.
var riskRules = []riskRule{
	{"it changes what hosts, editors, git, CI or build tools execute or obey", core.RiskHigh, func(e effect) bool { return e.executed }},
	{"it names a path outside of the workspace", core.RiskHigh, func(e effect) bool { return e.outside != "" && !e.reads }},
	{"it changes something beyond this machine", core.RiskHigh, func(e effect) bool { return e.leaves && !e.reads }},
	{"it deletes a file", core.RiskHigh, func(e effect) bool { return e.builtin && e.deletions }},
	{"it creates a file in the workspace", core.RiskMedium, func(e effect) bool { return e.changesFile(asked.FileNew) }},
	{"it changes less than 200 lines of a file in the workspace", core.RiskMedium, func(e effect) bool {
		return e.changesFile(asked.FileSame) || e.changesFile(asked.FileChanged) && e.file.Why == "" && e.file.Added+e.file.Removed < fewLines
	}},
	{"it changes 200 lines or more of a file in the workspace", core.RiskHigh, func(e effect) bool { return e.changesFile(asked.FileChanged) }},
	{"it destroys, by what its server or its name says", core.RiskHigh, func(e effect) bool { return e.destroys && !e.builtin }},
	{"it changes files in the workspace, and how much cannot be told", core.RiskHigh, func(e effect) bool { return e.builtin && !e.reads }},
	{"it reads beyond this machine, or outside of the workspace", core.RiskMedium, func(e effect) bool { return e.reads && (e.leaves || e.outside != "") }},
	{"it only reads, by what its server says", core.RiskLow, func(e effect) bool { return e.reads }},
	{"its server is not ready yet: nothing is known of it", core.RiskMedium, func(e effect) bool { return e.unknown }},
	{"its server does not say that it destroys anything", core.RiskMedium, func(effect) bool { return true }},
}

// changesFile reports whether the call is one of pml's own that brings a file of the
// workspace to a state.
func (e effect) changesFile(state asked.FileState) bool {
	return e.builtin && e.file != nil && e.file.State == state
}

// risk is the risk of an effect, and why.
func (e effect) risk() (core.Risk, string) {
	rule := riskRules[slices.IndexFunc(riskRules, func(r riskRule) bool { return r.holds(e) })]
	why := rule.when
	if e.outside != "" && (rule.risk == core.RiskHigh || e.reads) {
		why += fmt.Sprintf(" (%s)", e.outside)
	}
	return rule.risk, why
}

// effectOf is what is known of a call of a tool with these hints.
func (s *settings) effectOf(tool string, args json.RawMessage, a core.Annotations, needsInstall bool, file *asked.File) effect {
	server, name, _ := core.SplitTool(tool)
	e := effect{
		builtin: server == Builtin, unknown: needsInstall, reads: a.IsReadOnly(), leaves: s.leaves(server, a), file: file,
	}
	e.destroys = a.Destructive != nil && *a.Destructive || !e.reads && hasWord(name, deletingWords)
	e.deletions = e.builtin && name == "delete_file"
	if !e.builtin { // whose paths never lead out
		e.outside = core.Visible(s.redact.String(outside(s.all.Workspace.Dir, args)), 200, false)
	}
	return e
}

// leaves reports whether a call of a tool of a server reaches beyond this
// machine: its tool says so, or the server is elsewhere, whatever its tool says.
func (s *settings) leaves(server string, a core.Annotations) bool {
	if a.OpenWorld != nil && *a.OpenWorld {
		return true
	}
	entry, ok := s.granted.Servers[server]
	if !ok || entry.URL == "" {
		return false
	}
	at, err := url.Parse(entry.URL)
	if err != nil { // a variable: it may be anywhere
		return true
	}
	ip := net.ParseIP(at.Hostname())
	return at.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback())
}

// pathWords are the words of a name of an argument that holds paths.
var pathWords = []string{
	"path", "paths", "file", "files", "filename", "filepath", "dir", "directory", "directories", "folder", "folders", "root", "cwd",
	"source", "src", "destination", "dest", "dst", "target", "from", "to", "output", "uri",
}

// outside returns the first path among the arguments of a call that leads out of a
// folder, by its form or by links; empty for none. Arguments are the tool's own, so
// a path is what stands under a name that speaks of one.
func outside(dir string, args json.RawMessage) string {
	var value any
	if dir == "" || json.Unmarshal(args, &value) != nil {
		return ""
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		real = dir
	}
	var look func(v any, names bool) string
	look = func(v any, names bool) string {
		switch v := v.(type) {
		case string:
			if names && leadsOut(real, v) {
				return v
			}
		case []any:
			for _, one := range v {
				if p := look(one, names); p != "" {
					return p
				}
			}
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				if p := look(v[key], hasWord(key, pathWords)); p != "" {
					return p
				}
			}
		}
		return ""
	}
	return look(value, false)
}

// leadsOut reports whether a path leads out of a folder that has no links in it. What
// does not exist yet is where its folder is.
func leadsOut(dir, p string) bool {
	p = strings.TrimSpace(p)
	if rest, ok := strings.CutPrefix(p, "file://"); ok {
		if plain, err := url.PathUnescape(rest); err == nil {
			rest = plain
		}
		p = rest
	}
	switch {
	case p == "" || strings.Contains(p, "://"):
		return false // no path: an address is the server's matter
	case strings.HasPrefix(p, "~"):
		return true
	}
	if !filepath.IsAbs(p) {
		p = dir + string(filepath.Separator) + p
	}
	real, ok := realOf(p, maxLinks)
	if !ok {
		return true
	}
	rel, err := filepath.Rel(dir, real)
	return err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// maxLinks bounds the links that lead to nothing of one path.
const maxLinks = 40

// realOf follows the links of an absolute path step by step, so that ".." is what it
// is behind a link. What does not exist is where it is named; ok is false where that
// does not come to an end.
func realOf(p string, links int) (real string, ok bool) {
	volume := filepath.VolumeName(p)
	at := volume + string(filepath.Separator)
	for part := range strings.SplitSeq(filepath.ToSlash(p[len(volume):]), "/") {
		switch part {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, part)
		if real, err := filepath.EvalSymlinks(next); err == nil {
			at = real
			continue
		}
		to, err := os.Readlink(next)
		if err != nil { // it does not exist
			at = next
			continue
		}
		if links == 0 {
			return "", false
		}
		if !filepath.IsAbs(to) {
			to = at + string(filepath.Separator) + to
		}
		if at, ok = realOf(to, links-1); !ok {
			return "", false
		}
	}
	return at, true
}
