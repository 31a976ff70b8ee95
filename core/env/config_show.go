package env

import (
	"encoding/json"
	"strings"

	"github.com/casys-ai/pml/core/redact"
)

// Show returns the configuration as JSON for a person: defaults included,
// secrets left out. Of the variables that servers declare it shows references
// as they are written, and a mark instead of a value.
func (c *Config) Show() json.RawMessage {
	type entry struct {
		ServerEntry
		Origin Origin `json:"from"`
	}
	servers := map[string]entry{}
	for name, e := range c.Servers {
		e.Env, e.Headers = maskAll(e.Env), maskAll(e.Headers)
		servers[name] = entry{e, e.Origin}
	}
	raw, err := json.MarshalIndent(map[string]any{
		"version": c.Version,
		"paths": map[string]string{
			"workspace": c.Workspace.Dir, "workspace_by": c.Workspace.Source, "config": c.Workspace.Config(),
			"home": c.Home.Dir, "home_config": c.Home.Config(), "flows": c.Flows, "home_flows": c.HomeFlows,
		},
		"server": map[string]any{"url": c.Server.URL, "from": c.Origin("/server/url")},
		"permissions": map[string]any{
			"allow": list(c.Permissions.Allow), "deny": list(c.Permissions.Deny), "ask": list(c.Permissions.Ask),
			"readonly": c.Permissions.ReadOnly,
		},
		"approvals": map[string]any{
			"ttl": formatDuration(c.Approvals.TTL), "resume_ttl": formatDuration(c.Approvals.ResumeTTL),
			"decider": c.Approvals.Decider, "decider_from": c.Origin("/approvals/decider"), "agent_may": c.Approvals.AgentMay, "pin": c.Approvals.Pin != "", "trust_host": c.Approvals.TrustHost,
			"notify": c.showNotify(),
		},
		"hooks":      map[string]any{"wait": formatDuration(c.Hooks.Wait)},
		"routing":    map[string]any{"client": list(c.Routing.Client), "server": list(c.Routing.Server), "default": c.Routing.Default},
		"mcpServers": servers,
		"models":     c.showModels(),
		"limits": map[string]any{
			"concurrency": c.Limits.Concurrency, "per_server": c.Limits.PerServer, "calls": c.Limits.Calls,
			"timeout": formatDuration(c.Limits.Timeout), "call_timeout": formatDuration(c.Limits.CallTimeout),
			"call_total":   formatDuration(c.Limits.CallTotal),
			"cpu":          formatDuration(c.Limits.CPU),
			"install":      formatDuration(c.Limits.Install),
			"result_bytes": c.Limits.ResultBytes,
			"memory_bytes": c.Limits.MemoryBytes,
			"runs":         c.Limits.Runs,
		},
		"retention": formatDuration(c.Retention),
		"expose":    c.showExpose(),
		"tui": map[string]any{
			"theme": c.Terminal.Theme, "ascii": c.Terminal.ASCII, "plain": c.Terminal.Plain, "notify": c.Terminal.Notify, "keys": c.Terminal.keys(),
		},
	}, "", "  ")
	if err != nil {
		return json.RawMessage("{}") // plain values always encode
	}
	return redact.New(c.Secrets()).JSON(raw)
}

// showExpose is a list where no other mode is named, as in the file.
func (c *Config) showExpose() any {
	if c.ExposeMode == ExposeList {
		return list(c.Expose)
	}
	return map[string]any{"mode": c.ExposeMode, "tools": list(c.Expose)}
}

// showModels leaves out what is written into the file of a key.
func (c *Config) showModels() map[string]any {
	type entry struct {
		ModelEntry
		Origin Origin `json:"from"`
	}
	out := map[string]any{}
	if c.DefaultModel != "" {
		out["default"] = c.DefaultModel
	}
	for name, e := range c.Models {
		e.APIKey = mask(e.APIKey)
		out[name] = entry{e, e.Origin}
	}
	return out
}

// list makes an empty list of a missing one: readers expect a list.
func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// maskAll hides values that are written into the file itself and keeps the
// references to variables.
func maskAll(values map[string]string) map[string]string {
	if values == nil {
		return nil
	}
	out := map[string]string{}
	for name, text := range values {
		out[name] = mask(text)
	}
	return out
}

func mask(text string) string {
	refs, err := parseRefs(text)
	if err != nil {
		return "«hidden»"
	}
	var out strings.Builder
	for _, r := range refs {
		switch {
		case r.variable && r.otherwise != "":
			out.WriteString("${" + r.text + ":-«hidden»}")
		case r.variable && r.hasDefault:
			out.WriteString("${" + r.text + ":-}")
		case r.variable:
			out.WriteString("${" + r.text + "}")
		case r.text != "":
			out.WriteString("«hidden»")
		}
	}
	return out.String()
}
