package core

import (
	"path"
	"slices"
	"strings"
)

// byTheChange is what ties what a change was about to the file, in the reason of its row.
const byTheChange = ", by "

// ChangeReason is the reason of the row of the audit log about a change of a file: what the
// change was about, as in "allow fs:*, no longer deny git:push where …" or "the server fs",
// empty where only the file says it.
func ChangeReason(about, file string) string {
	reason := changeOf + file
	if about != "" {
		reason = about + byTheChange + reason
	}
	return reason
}

const changeOf = "the change of "

// ChangedFile is what a row about a change of a file was about, and the file; ok says whether
// it is one.
func ChangedFile(r AuditRow) (about, file string, ok bool) {
	if r.Type != "" || r.Tool != "" || r.RunID != "" {
		return "", "", false
	}
	if file, ok = strings.CutPrefix(r.Reason, changeOf); ok {
		return "", file, true
	}
	if about, file, ok = strings.Cut(r.Reason, byTheChange+changeOf); !ok {
		return "", "", false
	}
	return about, file, true
}

// ruleWords are how what a change was about names a rule.
var ruleWords = []string{"allow", "ask", "deny"}

// changed are the tools that the rules of a change are about, as their patterns name them,
// and the servers that were added or removed.
func changed(r AuditRow) (rules, servers []string) {
	about, _, _ := ChangedFile(r)
	for part := range strings.SplitSeq(about, ", ") {
		words := strings.Fields(strings.TrimPrefix(part, "no longer "))
		switch {
		case len(words) >= 2 && slices.Contains(ruleWords, words[0]):
			rules = append(rules, words[1])
		case len(words) >= 3 && words[0] == "the" && words[1] == "server":
			servers = append(servers, words[2])
		}
	}
	return rules, servers
}

// about reports whether a row is about a tool or server of which the text is a part: also a
// rule that was written or removed, whose pattern has the text in it or matches it.
func (f AuditFilter) about(r AuditRow) bool {
	if contains(r.Tool, f.Tool) {
		return true
	}
	rules, servers := changed(r)
	return slices.ContainsFunc(rules, func(p string) bool { return contains(p, f.Tool) || matchesRule(p, f.Tool) }) ||
		slices.ContainsFunc(servers, func(s string) bool { return contains(s, f.Tool) })
}

// matchesRule reports whether the pattern of a rule is for a tool: of a glob what path.Match
// knows of it, or a server with all its tools.
func matchesRule(pattern, tool string) bool {
	ok, err := path.Match(strings.ToLower(pattern), strings.ToLower(tool))
	return err == nil && ok || strings.HasPrefix(strings.ToLower(tool), strings.ToLower(pattern)+":")
}

// The types that a filter may name beside those of approvals: rows about rules that were
// written or removed, also by an answer to a question, and about all changes of files.
const (
	auditRules   ApprovalType = "rule"
	auditChanges ApprovalType = "change"
)

// AuditTypes are the names that a filter takes for a type.
var AuditTypes = append([]string{string(auditRules), string(auditChanges)}, approvalTypeNames()...)

// ofType reports whether a row is of the type that is asked for.
func (f AuditFilter) ofType(r AuditRow) bool {
	if f.Type == auditRules {
		rules, _ := changed(r)
		return len(rules) > 0 || r.Remember == RememberRule
	}
	if f.Type == auditChanges {
		_, _, is := ChangedFile(r)
		return is
	}
	return f.Type == "" || r.Type == f.Type
}
