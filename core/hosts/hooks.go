package hosts

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonc"
)

// hookKey is the member of a host's settings that has its hooks, by event.
const hookKey = "hooks"

// hookEvents are the events that pml answers.
var hookEvents = []string{"PreToolUse", "PermissionRequest"}

// hookTimeout is how long a host waits for pml, in seconds: longer than pml waits for a
// person (hooks.wait).
const hookTimeout = 60

// HookTargets lists the files in which hosts find permission hooks. They need not exist.
func (p Place) HookTargets() []Target {
	var out []Target
	if p.Workspace != "" {
		dir := filepath.Join(p.Workspace, ".claude")
		out = append(out, Target{
			Host: claudeCode + "-hooks", Title: "Claude Code's hooks (this workspace)", File: filepath.Join(dir, "settings.local.json"),
			Shared: true, Mine: true, Hook: core.HostClaude, Found: isThere(filepath.Join(p.Workspace, ".mcp.json"), dir, p.claudeFile()),
			Hint: "/hooks in a new session of Claude Code shows it",
		})
	}
	if dir := p.codexDir(); dir != "" {
		out = append(out, Target{
			Host: codex + "-hooks", Title: "Codex's hooks (every folder)", File: filepath.Join(dir, "hooks.json"), Hook: core.HostCodex, Found: isThere(dir),
			Hint: "Codex runs it once you have trusted it: /hooks in a session",
		})
	}
	return out
}

// hookGroup is what pml adds for an event.
type hookGroup struct {
	Hooks []hookCommand `json:"hooks"`
}

type hookCommand struct {
	Type    string `json:"type"`
	Command string `json:"command"`
	Timeout int    `json:"timeout"`
}

// hookText is a configuration with hooks, comments allowed.
type hookText struct {
	t    Target
	was  []byte     // the text as it was opened
	doc  *jsonc.Doc // of a text that was blank, an empty object
	root value
}

func (t Target) openHooks(text []byte) (*hookText, error) {
	was := text
	if len(bytes.TrimSpace(bytes.TrimPrefix(text, bom))) == 0 {
		text = append(bytes.Clone(text), "{}"+jsonc.Newline(text)...)
	}
	root, doc, fault := parse(text)
	if fault != nil {
		return nil, t.refused(*fault)
	}
	if root.kind != '{' {
		return nil, t.refused(doc.Fault(root.at, "it must be an object, not %s", root.what()))
	}
	list := root.get(hookKey)
	switch {
	case root.count(hookKey) > 1:
		return nil, t.refused(doc.Fault(list.at, "%q stands twice in it", hookKey))
	case list.kind != 0 && list.kind != '{':
		return nil, t.refused(doc.Fault(list.at, "%q must be an object, not %s", hookKey, list.what()))
	}
	for _, event := range hookEvents {
		switch groups := list.get(event); {
		case list.count(event) > 1:
			return nil, t.refused(doc.Fault(groups.at, "%q stands twice in %q", event, hookKey))
		case groups.kind != 0 && groups.kind != '[':
			return nil, t.refused(doc.Fault(groups.at, "%q must be a list, not %s", event, groups.what()))
		}
	}
	return &hookText{t: t, was: was, doc: doc, root: root}, nil
}

// program is what a group of hooks starts as pml; ok is false for a group of others.
func (h *hookText) program(group value) (name string, ok bool) {
	for _, hook := range group.get("hooks").items {
		name, ok = strings.CutSuffix(hook.get("command").text, " hook "+h.t.Hook)
		if name = strings.Trim(name, `'"`); ok && programName(name) == ownName {
			return name, true
		}
	}
	return "", false
}

// entry puts pml's groups of all events together: with arguments that no hook has where
// one of them is missing, so that it is another entry than the wanted one.
func (h *hookText) entry(string) (value, bool) {
	var command string
	var events []member
	for _, event := range hookEvents {
		for _, group := range h.root.get(hookKey).get(event).items {
			if name, ok := h.program(group); ok {
				command, events = name, append(events, member{event, group})
			}
		}
	}
	args := []value{{kind: '"', text: "hook"}, {kind: '"', text: h.t.Hook}}
	if len(events) != len(hookEvents) {
		args = append(args, value{kind: '"', text: "?"})
	}
	return value{kind: '{', members: append([]member{{"command", value{kind: '"', text: command}}, {"args", value{kind: '[', items: args}}}, events...)}, len(events) > 0
}

func (h *hookText) names() []string { return nil }

// shown are pml's groups as a person sees them: of one that was changed nothing but that.
func (h *hookText) shown() []string {
	v, _ := h.entry(ownName)
	var out []string
	for _, m := range v.members[2:] {
		name, _ := h.program(m.value)
		text := "…"
		if raw, err := json.Marshal(h.group(name)); err == nil {
			if own, _, fault := parse(raw); fault == nil && digestOf(own) == digestOf(m.value) {
				text = string(raw)
			}
		}
		out = append(out, hookKey+"."+m.name+": "+text)
	}
	return out
}

func (h *hookText) group(program string) hookGroup {
	if strings.ContainsAny(program, " ()&;") {
		program = "'" + program + "'"
	}
	return hookGroup{[]hookCommand{{Type: "command", Command: program + " hook " + h.t.Hook, Timeout: hookTimeout}}}
}

// rest leaves pml's groups out, and lists and objects that are empty without them.
func (h *hookText) rest() string {
	all, _ := meaning(h.root).(map[string]any)
	events, _ := all[hookKey].(map[string]any)
	for _, event := range hookEvents {
		if events[event] == nil {
			continue
		}
		kept := []any{}
		for _, group := range h.root.get(hookKey).get(event).items {
			if _, own := h.program(group); !own {
				kept = append(kept, meaning(group))
			}
		}
		if events[event] = kept; len(kept) == 0 {
			delete(events, event)
		}
	}
	if len(events) == 0 {
		delete(all, hookKey)
	}
	raw, err := json.Marshal(all)
	if err != nil {
		return ""
	}
	return string(raw)
}

// set adds pml's groups behind those of others.
func (h *hookText) set(e Entry) (Edit, error) {
	text, err := h.without()
	if err != nil {
		return Edit{}, err
	}
	for _, event := range hookEvents {
		now, err := h.t.openHooks(text)
		if err != nil {
			return Edit{}, err
		}
		edit, err := now.doc.Append([]string{hookKey, event}, h.group(e.Command))
		if err != nil {
			return Edit{}, err
		}
		after, ok := edit.Apply(now.doc.Text())
		if !ok {
			return Edit{}, h.t.refused(core.Fault{Message: "pml finds no place in it"})
		}
		text = after
	}
	return h.to(text), nil
}

// drop takes pml's groups out, whatever else was there before them.
func (h *hookText) drop(string) (Edit, error) {
	text, err := h.without()
	if err != nil {
		return Edit{}, err
	}
	return h.to(text), nil
}

// without is the text without pml's groups: the last ones first, so that places hold.
func (h *hookText) without() ([]byte, error) {
	text := h.doc.Text()
	for {
		now, err := h.t.openHooks(text)
		if err != nil {
			return nil, err
		}
		after, found, err := now.less()
		if err != nil || !found {
			return text, err
		}
		text = after
	}
}

// less is the text without one of pml's groups; found is false where there is none.
func (h *hookText) less() (text []byte, found bool, err error) {
	list, _ := jsonc.Find(h.doc.Root, hookKey)
	for _, event := range hookEvents {
		groups := h.root.get(hookKey).get(event).items
		i := slices.IndexFunc(groups, func(g value) bool { _, own := h.program(g); return own })
		if i < 0 {
			continue
		}
		var edit Edit
		switch member, _ := jsonc.Find(list.Value, event); {
		case len(groups) > 1:
			edit, err = h.lessGroup(groups, i)
		case len(h.root.get(hookKey).members) > 1:
			edit = h.doc.Remove(member)
		default:
			edit = h.doc.Remove(list)
		}
		if err != nil {
			return nil, true, err
		}
		after, ok := edit.Apply(h.doc.Text())
		if !ok {
			return nil, true, h.t.refused(core.Fault{Message: "pml cannot take its hook out"})
		}
		return after, true, nil
	}
	return nil, false, nil
}

// lessGroup takes one of several groups out of their list. What stands between two of
// them but a comma is somebody's.
func (h *hookText) lessGroup(groups []value, i int) (Edit, error) {
	from, to := groups[i].at, groups[i].end
	if i > 0 {
		from = groups[i-1].end
	} else {
		to = groups[1].at
	}
	text := h.doc.Text()
	between := string(text[from:groups[i].at]) + string(text[groups[i].end:to])
	if strings.Trim(between, " \t\r\n,") != "" {
		return Edit{}, h.t.refused(h.doc.Fault(groups[i].at, "a remark stands beside pml's hook: take both out by hand"))
	}
	return Edit{At: from, Old: string(text[from:to])}, nil
}

// to is the one edit that makes a text of the one that was opened: from the first byte
// that differs to the last.
func (h *hookText) to(after []byte) Edit {
	before, from := h.was, 0
	for from < len(before) && from < len(after) && before[from] == after[from] {
		from++
	}
	for from > 0 && (from < len(before) && !utf8.RuneStart(before[from]) || from < len(after) && !utf8.RuneStart(after[from])) {
		from--
	}
	end := 0
	for end < len(before)-from && end < len(after)-from && before[len(before)-1-end] == after[len(after)-1-end] {
		end++
	}
	for end > 0 && (!utf8.RuneStart(before[len(before)-end]) || !utf8.RuneStart(after[len(after)-end])) {
		end--
	}
	return Edit{At: from, Old: string(before[from : len(before)-end]), New: string(after[from : len(after)-end])}
}
