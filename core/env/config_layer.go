package env

import (
	"strconv"
	"strings"
	"time"

	"github.com/casys-ai/pml/core/policy"
)

// layer is the content of one configuration file. What the file does not say
// is nil, so that a weaker layer shows through. Its JSON form, marshalled, is
// also what a person is shown when asked for trust.
type layer struct {
	Schema      *string                 `json:"$schema,omitempty"`
	Version     *int64                  `json:"version,omitempty"`
	Server      serverPart              `json:"server,omitzero"`
	Permissions permissionsPart         `json:"permissions,omitzero"`
	Approvals   approvalsPart           `json:"approvals,omitzero"`
	Hooks       hooksPart               `json:"hooks,omitzero"`
	Routing     routingPart             `json:"routing,omitzero"`
	Servers     map[string]*ServerEntry `json:"mcpServers,omitempty"`
	Flows       *string                 `json:"flows,omitempty"`
	Models      modelsPart              `json:"models,omitzero"`
	Limits      limitsPart              `json:"limits,omitzero"`
	Retention   *duration               `json:"retention,omitempty"`
	Expose      exposePart              `json:"expose,omitzero"`
	Terminal    terminalPart            `json:"tui,omitzero"`
}

type serverPart struct {
	URL *string `json:"url,omitempty"`
}

type permissionsPart struct {
	Allow    []policy.Rule `json:"allow,omitempty"`
	Deny     []policy.Rule `json:"deny,omitempty"`
	Ask      []policy.Rule `json:"ask,omitempty"`
	ReadOnly *string       `json:"readonly,omitempty"`
}

type approvalsPart struct {
	TTL       *duration  `json:"ttl,omitempty"`
	ResumeTTL *duration  `json:"resume_ttl,omitempty"`
	Decider   *string    `json:"decider,omitempty"`
	AgentMay  *string    `json:"agent_may,omitempty"`
	Pin       *string    `json:"pin,omitempty"`
	TrustHost *bool      `json:"trust_host,omitempty"`
	Notify    notifyPart `json:"notify,omitzero"`
}

type hooksPart struct {
	Wait *duration `json:"wait,omitempty"`
}

type routingPart struct {
	Client  []string `json:"client,omitempty"`
	Server  []string `json:"server,omitempty"`
	Default *string  `json:"default,omitempty"`
}

type limitsPart struct {
	Concurrency *int64    `json:"concurrency,omitempty"`
	PerServer   *int64    `json:"per_server,omitempty"`
	Calls       *int64    `json:"calls,omitempty"`
	Timeout     *duration `json:"timeout,omitempty"`
	CallTimeout *duration `json:"call_timeout,omitempty"`
	CallTotal   *duration `json:"call_total,omitempty"`
	CPU         *duration `json:"cpu,omitempty"`
	Install     *duration `json:"install,omitempty"`
	ResultBytes *int64    `json:"result_bytes,omitempty"`
	MemoryBytes *int64    `json:"memory_bytes,omitempty"`
	Runs        *int64    `json:"runs,omitempty"`
}

// grants returns the part of a workspace's layer that a person must trust:
// everything but what only restricts.
func (l layer) grants() layer {
	l.Schema, l.Version = nil, nil
	l.Permissions.Deny, l.Permissions.Ask = nil, nil
	if len(l.Permissions.Allow) == 0 {
		l.Permissions.Allow = nil
	}
	if len(l.Servers) == 0 {
		l.Servers = nil
	}
	if is(l.Permissions.ReadOnly, "ask") {
		l.Permissions.ReadOnly = nil
	}
	if is(l.Approvals.Decider, string(DeciderHuman)) {
		l.Approvals.Decider = nil
	}
	if is(l.Approvals.AgentMay, string(AgentMayMedium)) {
		l.Approvals.AgentMay = nil
	}
	return l
}

// restrictions returns the part of a layer that counts without trust.
func (l layer) restrictions() layer {
	r := layer{Version: l.Version}
	r.Permissions.Deny, r.Permissions.Ask = l.Permissions.Deny, l.Permissions.Ask
	if is(l.Permissions.ReadOnly, "ask") {
		r.Permissions.ReadOnly = l.Permissions.ReadOnly
	}
	if is(l.Approvals.Decider, string(DeciderHuman)) {
		r.Approvals.Decider = l.Approvals.Decider
	}
	if is(l.Approvals.AgentMay, string(AgentMayMedium)) {
		r.Approvals.AgentMay = l.Approvals.AgentMay
	}
	return r
}

func is(p *string, s string) bool { return p != nil && *p == s }

// duration is a time.Duration that is written as text, "5m" or "30d".
type duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d duration) MarshalText() ([]byte, error) { return []byte(formatDuration(time.Duration(d))), nil }

const day = 24 * time.Hour

// parseDuration reads what time.ParseDuration does, and days ("30d", "1d12h").
func parseDuration(s string) (time.Duration, bool) {
	var total time.Duration
	if days, rest, ok := strings.Cut(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil {
			return 0, false
		}
		total = time.Duration(n) * day
		if rest == "" {
			return total, true
		}
		s = rest
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || total+d < total {
		return 0, false
	}
	return total + d, true
}

// formatDuration writes a duration as a person would: without zero units.
func formatDuration(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	var b strings.Builder
	if d >= day {
		b.WriteString(strconv.FormatInt(int64(d/day), 10) + "d")
		if d %= day; d == 0 {
			return b.String()
		}
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	b.WriteString(s)
	return b.String()
}
