package env

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/atomicfile"
	"github.com/casys-ai/pml/core/policy"
)

const (
	heldVersion = 2       // 1 had no flows and no conditions
	maxHeld     = 4 << 20 // bytes of a record of restrictions
)

// restrictions are what a workspace's file takes away. Limits are by the name of
// their field, durations in nanoseconds; a limit of 0 is none. Flows are those that
// check calls.
type restrictions struct {
	Deny     []policy.Rule    `json:"deny,omitempty"`
	Ask      []policy.Rule    `json:"ask,omitempty"`
	ReadOnly bool             `json:"readonly_ask,omitempty"`
	Human    bool             `json:"decider_human,omitempty"`
	AgentMay bool             `json:"agent_may_medium,omitempty"`
	Limits   map[string]int64 `json:"limits,omitempty"`
	Flows    []heldFlow       `json:"flows,omitempty"`
}

// heldFile is what $PML_HOME/trust keeps of the restrictions of a workspace. It
// is a file of its own, which only a person's trust makes looser: two processes
// that write it at once leave restrictions too many, never too few.
type heldFile struct {
	Version      int          `json:"version"`
	Workspace    string       `json:"workspace"`
	Restrictions restrictions `json:"restrictions"`
}

// restrictions are those of the workspace's files. Limits and flows count with trust
// only.
func (c *Config) restrictions(trusted bool) restrictions {
	l := c.work.layer
	r := restrictions{
		Deny: l.Permissions.Deny, Ask: l.Permissions.Ask,
		ReadOnly: is(l.Permissions.ReadOnly, "ask"), Human: is(l.Approvals.Decider, string(DeciderHuman)),
		AgentMay: is(l.Approvals.AgentMay, string(AgentMayMedium)),
	}
	if !trusted {
		return r
	}
	r.Flows = c.checkingFlows()
	part := reflect.ValueOf(l.Limits)
	for i := range part.NumField() {
		f := part.Field(i)
		if f.IsNil() || f.Elem().Kind() != reflect.Int64 {
			continue
		}
		if r.Limits == nil {
			r.Limits = map[string]int64{}
		}
		r.Limits[part.Type().Field(i).Name] = f.Elem().Int()
	}
	return r
}

// with is what holds when both hold.
func (r restrictions) with(s restrictions) restrictions {
	out := restrictions{
		Deny: union(r.Deny, s.Deny), Ask: union(r.Ask, s.Ask),
		ReadOnly: r.ReadOnly || s.ReadOnly, Human: r.Human || s.Human, AgentMay: r.AgentMay || s.AgentMay,
		Flows: unionFlows(r.Flows, s.Flows),
	}
	for _, limits := range []map[string]int64{r.Limits, s.Limits} {
		for name, n := range limits {
			if out.Limits == nil {
				out.Limits = map[string]int64{}
			}
			if had, ok := out.Limits[name]; !ok || tighter(n, had) {
				out.Limits[name] = n
			}
		}
	}
	return out
}

// without is what is left when the text of a file goes from before to after and a
// person has agreed to that: what only before had is gone, and no more than that.
func (r restrictions) without(before, after restrictions) restrictions {
	gone := func(list, had, has []policy.Rule) []policy.Rule {
		return slices.DeleteFunc(slices.Clone(list), func(s policy.Rule) bool { return slices.Contains(had, s) && !slices.Contains(has, s) })
	}
	r.Deny, r.Ask = gone(r.Deny, before.Deny, after.Deny), gone(r.Ask, before.Ask, after.Ask)
	r.ReadOnly, r.Human, r.AgentMay = r.ReadOnly && !before.ReadOnly, r.Human && !before.Human, r.AgentMay && !before.AgentMay
	r.Flows = slices.DeleteFunc(slices.Clone(r.Flows), func(f heldFlow) bool { return f.in(before.Flows) && !f.in(after.Flows) })
	limits := map[string]int64{}
	for name, n := range r.Limits {
		if had, ok := before.Limits[name]; !ok || had != n || after.Limits[name] == n {
			limits[name] = n
		}
	}
	r.Limits = limits
	return r.with(after)
}

// tighter reports whether a limit lets less through than another one.
func tighter(n, than int64) bool { return n > 0 && (than <= 0 || n < than) }

func union(a, b []policy.Rule) []policy.Rule {
	var out []policy.Rule
	for _, s := range slices.Concat(a, b) {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// hold applies the restrictions that this machine keeps of the workspace. What
// the files do not say any more stays in force and is named by TakenOut.
func (c *Config) hold(r restrictions) {
	c.held = r
	taken := func(setting, value string) { c.taken = append(c.taken, setting+": "+visibleJSON(value)) }
	for _, list := range []struct {
		name string
		has  *[]policy.Rule
		held []policy.Rule
	}{{"permissions.deny", &c.Permissions.Deny, r.Deny}, {"permissions.ask", &c.Permissions.Ask, r.Ask}} {
		for _, rule := range list.held {
			if slices.Contains(*list.has, rule) {
				continue
			}
			at := "/" + strings.ReplaceAll(list.name, ".", "/") + "/" + strconv.Itoa(len(*list.has))
			c.origins[at] = place{origin: FromWorkspace}
			*list.has = append(*list.has, rule)
			text, err := rule.MarshalJSON()
			if err != nil {
				text = []byte(strconv.Quote(rule.String()))
			}
			taken(list.name, string(text))
		}
	}
	if r.ReadOnly && c.Permissions.ReadOnly == "allow" {
		c.Permissions.ReadOnly, c.origins["/permissions/readonly"] = "ask", place{origin: FromWorkspace}
		taken("permissions.readonly", `"ask"`)
	}
	if r.Human && c.Approvals.Decider != DeciderHuman {
		c.Approvals.Decider, c.origins["/approvals/decider"] = DeciderHuman, place{origin: FromWorkspace}
		taken("approvals.decider", `"human"`)
	}
	if r.AgentMay && c.Approvals.AgentMay != AgentMayMedium {
		c.Approvals.AgentMay, c.origins["/approvals/agent_may"] = AgentMayMedium, place{origin: FromWorkspace}
		taken("approvals.agent_may", `"medium"`)
	}
	limits, names := reflect.ValueOf(&c.Limits).Elem(), reflect.TypeFor[limitsPart]()
	for f := range names.Fields() {
		n, limit := r.Limits[f.Name], limits.FieldByName(f.Name)
		if !limit.IsValid() || !limit.CanInt() || !tighter(n, limit.Int()) {
			continue
		}
		limit.SetInt(n)
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		c.origins["/limits/"+key] = place{origin: FromWorkspace}
		text := strconv.FormatInt(n, 10)
		if f.Type == reflect.TypeFor[*duration]() {
			text = strconv.Quote(formatDuration(time.Duration(n)))
		}
		taken("limits."+key, text)
	}
}

// TakenOut names the restrictions that the workspace's files had when pml read
// them before and do not have any more, one on a line, e.g.
// `permissions.deny: "fs:delete"`. They stay in force, together with what the
// files say now, until a person trusts the files as they are.
func (c *Config) TakenOut() []string { return slices.Clone(c.taken) }

// held reads what is kept of a workspace's restrictions.
func (l *loader) held() restrictions {
	if l.o.Home.Dir == "" {
		return restrictions{}
	}
	name := l.o.Home.heldPath(l.o.Workspace.Dir)
	data := l.bytes(name, maxHeld)
	if data == nil {
		return restrictions{}
	}
	var f heldFile
	if json.Unmarshal(data, &f) != nil || f.Version < 1 || f.Version > heldVersion || f.Workspace != l.o.Workspace.Dir {
		l.faults = append(l.faults, core.Fault{File: name, Message: "is not what pml has written, so what the workspace forbids is not known; look at its .pml.json, then remove this file"})
	}
	return f.Restrictions
}

// holdAll keeps and returns the restrictions that are in force, so that taking them out of the
// files needs a person. What cannot be written is not kept; everything else that
// pml does writes to the home as well, and says so.
func (h Home) holdAll(c *Config, trusted bool) restrictions {
	r := c.held.with(c.restrictions(trusted))
	_ = h.writeHeld(c.Workspace.Dir, c.held, r)
	return r
}

// writeHeld keeps restrictions in the place of those that were kept.
func (h Home) writeHeld(workspace string, had, r restrictions) error {
	if reflect.DeepEqual(r.with(restrictions{}), had.with(restrictions{})) {
		return nil
	}
	data, err := json.MarshalIndent(heldFile{Version: heldVersion, Workspace: workspace, Restrictions: r}, "", "  ")
	if err == nil {
		err = atomicfile.Write(h.heldPath(workspace), append(data, '\n'), 0o600)
	}
	if err != nil {
		return core.Errorf(core.CodeStoreFailed, "cannot write down what %s forbids: %w; check the permissions of %s", workspace, err, h.Trust())
	}
	return nil
}

func (h Home) heldPath(workspace string) string {
	sum := sha256.Sum256([]byte(workspace))
	return filepath.Join(h.Trust(), hex.EncodeToString(sum[:])+".restrictions.json")
}
