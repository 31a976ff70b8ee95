package api

import (
	"context"
	"encoding/json"
	"time"
)

// Permissions are the rules that say which tools may be called, and what the past
// calls of this machine say of them.
type Permissions interface {
	// Rules are those that are in effect, the home's first.
	Rules(ctx context.Context) ([]PermissionRule, error)
	// TryRule puts the calls of the workspace's runs that began since then through the
	// rules as they are, and through those with one more. Servers whose tools the rule
	// concerns are started if they may be. A rule that is not valid is
	// core.CodeInvalidArguments with all its faults.
	TryRule(ctx context.Context, rule PermissionRule, since time.Time) (RuleTrial, error)
	// SuggestRules proposes rules that allow, from what people have decided since then
	// about calls of this workspace. The one that saves most is first.
	SuggestRules(ctx context.Context, since time.Time) ([]RuleSuggestion, error)
	// AddRules prepares a change of the workspace's .pml.json, or of the home's
	// config.json, that has further rules.
	AddRules(ctx context.Context, home bool, rules ...PermissionRule) (ChangeSet, error)
	// RemoveRules prepares a change of the same file without the rules that are like one:
	// its tool is the same text, and so are its list and its condition where they are given.
	// A rule that the file does not have is core.CodeNotFound.
	RemoveRules(ctx context.Context, home bool, like PermissionRule) (ChangeSet, error)
}

// PermissionRule is an entry of the permissions.
type PermissionRule struct {
	List  string `json:"list"`            // allow, ask or deny
	Tool  string `json:"tool"`            // a pattern on server:tool
	Where string `json:"where,omitempty"` // a condition on the call
	From  string `json:"from,omitempty"`  // home or workspace
}

// RuleTrial is what a rule would have changed.
type RuleTrial struct {
	Rule  PermissionRule `json:"rule"`
	Since time.Time      `json:"since"`
	Runs  int            `json:"runs"`  // that were looked at
	Calls int            `json:"calls"` // that the rule's pattern matches
	// Failed counts those for which its condition could not be evaluated.
	Failed int `json:"failed"`
	// Unknown counts those of whose tool nothing is known, as its server cannot be asked
	// now: it is judged as one that writes, and conditions on annotations fail.
	Unknown int `json:"unknown"`
	// Changed are the calls that would be judged otherwise, newest first.
	Changed []TriedCall `json:"changed"`
}

// TriedCall is a call of the past that a rule would judge otherwise.
type TriedCall struct {
	RunID     string          `json:"workflow_id"`
	RunName   string          `json:"workflow_name,omitempty"`
	CallID    string          `json:"call_id"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	At        time.Time       `json:"at"`
	Now       string          `json:"now"`  // what the rules make of it: allow, ask or deny
	Then      string          `json:"then"` // with the rule
	// Decided is what was decided when somebody was asked: approved or denied.
	Decided string `json:"decided,omitempty"`
	Reason  string `json:"reason,omitempty"` // why a condition could not be evaluated
}

// RuleSuggestion is a rule that would have saved questions.
type RuleSuggestion struct {
	Number int            `json:"number"` // from 1 on
	Rule   PermissionRule `json:"rule"`
	Saves  int            `json:"saves"`
}
