package core

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// AuditFilter selects rows of the audit log by what they say. Zero fields do not
// restrict.
type AuditFilter struct {
	From  time.Time `json:"from,omitzero"`  // at this time or later
	Until time.Time `json:"until,omitzero"` // before this time
	// By is a part of who decided: the user, the way, the name of an agent.
	By string `json:"by,omitempty"`
	// Tool is a part of the name of the tool, or of the server that was decided about; it
	// finds also the rules that were written or removed for it.
	Tool    string        `json:"tool,omitempty"`
	Outcome ApprovalState `json:"outcome,omitempty"`
	// Type is one of AuditTypes.
	Type ApprovalType `json:"type,omitempty"`
	// Workspace is a folder, with all below it, or the last name of one.
	Workspace string `json:"workspace,omitempty"`
	// Approval is an approval's id or the first characters of it.
	Approval ID `json:"approval,omitempty"`
}

// AuditFilterKeys are the names that Set knows, as commands, HTTP and the terminal
// call them.
var AuditFilterKeys = []string{"since", "until", "by", "tool", "outcome", "type", "workspace", "approval"}

// AuditOutcomes are the outcomes that rows of the audit log have, and those that people read.
var AuditOutcomes = append([]string{string(ApprovalApproved), string(ApprovalDenied), string(ApprovalExpired), string(ApprovalSuperseded), OutcomeRefused}, DoneOutcomes...)

// Set sets a field by its name. A value that makes no sense, or a name that is not
// one of AuditFilterKeys, is CodeInvalidArguments.
func (f *AuditFilter) Set(key, value string, now time.Time) (err error) {
	switch key {
	case "since":
		f.From, err = ParseWhen(value, now)
	case "until":
		if f.Until, err = ParseWhen(value, now); err == nil && isDay(value) {
			f.Until = f.Until.In(now.Location()).AddDate(0, 0, 1).UTC() // the day is meant with all its hours
		}
	case "by":
		f.By = value
	case "tool":
		f.Tool = strings.Trim(value, "*") // a part of the name, so that fs:* is what begins with fs:
	case "outcome":
		f.Outcome = ApprovalState(value)
		err = oneOf(value, AuditOutcomes)
	case "type":
		f.Type = ApprovalType(value)
		err = oneOf(value, AuditTypes)
	case "workspace":
		f.Workspace = value
	case "approval":
		f.Approval = ID(value)
	default:
		err = Errorf(CodeInvalidArguments, "no filter is called %q%s; there are %s", Visible(key, 60, false), Suggest(key, AuditFilterKeys), strings.Join(AuditFilterKeys, ", "))
	}
	return err
}

func oneOf(value string, names []string) error {
	if slices.Contains(names, value) {
		return nil
	}
	return Errorf(CodeInvalidArguments, "%q is none of %s%s", Visible(value, 60, false), strings.Join(names, ", "), Suggest(value, names))
}

// approvalTypes are all types of approval, as a filter may name them.
var approvalTypes = []ApprovalType{ApproveDependency, ApproveKeys, ApproveIntegrity, ApproveTool, ApproveOAuth, ApproveLayer, ApproveInDoubt, ApproveHook, ApproveBudget, ApproveHost}

func approvalTypeNames() []string {
	out := make([]string, len(approvalTypes))
	for i, t := range approvalTypes {
		out[i] = string(t)
	}
	return out
}

// Match reports whether a row is selected.
func (f AuditFilter) Match(r AuditRow) bool {
	switch {
	case !f.From.IsZero() && r.At.Before(f.From), !f.Until.IsZero() && !r.At.Before(f.Until):
		return false
	case f.Outcome != "" && !f.ofOutcome(r), !f.ofType(r):
		return false
	case f.Approval != "" && !strings.HasPrefix(string(r.ApprovalID), string(f.Approval)):
		return false
	case f.Workspace != "" && !f.inWorkspace(r.Workspace):
		return false
	}
	return f.about(r) && (f.By == "" || contains(r.By.Name()+"/"+string(r.By.Via)+" "+r.By.Label(), f.By))
}

func (f AuditFilter) inWorkspace(dir string) bool {
	if !strings.ContainsAny(f.Workspace, `/\`) {
		return filepath.Base(dir) == f.Workspace
	}
	under, ok := strings.CutPrefix(dir, strings.TrimRight(f.Workspace, `/\`))
	return ok && (under == "" || strings.ContainsAny(under[:1], `/\`))
}

// contains ignores case; everything contains nothing.
func contains(text, part string) bool {
	return part == "" || strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

// ParseWhen reads a point in time as people write it: a time that has gone by
// (30m, 12h, 7d, 2w), a day (2026-11-20) or a moment (RFC 3339).
func ParseWhen(text string, now time.Time) (time.Time, error) {
	if d, ok := parseAge(text); ok {
		return now.Add(-d).UTC(), nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t.UTC(), nil
	}
	for _, layout := range []string{time.DateOnly, "2006-01-02T15:04", "2006-01-02 15:04", time.DateTime} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, Errorf(CodeInvalidArguments, "%q is no time: write how long ago (30m, 12h, 7d, 2w), a day (2026-11-20) or a moment (2026-11-20T15:04:05Z)", Visible(text, 60, false))
}

func isDay(text string) bool {
	_, err := time.Parse(time.DateOnly, text)
	return err == nil
}

// parseAge reads a duration that may be in days or weeks.
func parseAge(text string) (time.Duration, bool) {
	for unit, length := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		if digits, ok := strings.CutSuffix(text, unit); ok {
			n, err := strconv.Atoi(digits)
			return time.Duration(n) * length, err == nil && n >= 0 && n < 10_000
		}
	}
	d, err := time.ParseDuration(text)
	return d, err == nil && d >= 0
}
