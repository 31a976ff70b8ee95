package approval_test

import (
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
)

func TestConfirmation(t *testing.T) {
	t.Parallel()
	of := func(risk core.Risk, context string) core.Approval {
		return core.Approval{ID: "41d2e07b", RunID: "7f3a91c2", Risk: risk, Context: []byte(context)}
	}
	for name, c := range map[string]struct {
		a       core.Approval
		scripts bool
		want    string
	}{
		"Low":          {of(core.RiskLow, `{}`), false, ""},
		"Medium":       {of(core.RiskMedium, `{"new_hash":"sha256:9f04e77b"}`), false, ""},
		"Scripts":      {of(core.RiskMedium, `{"new_hash":"sha256:9f04e77b"}`), true, "9f04"},
		"NewHash":      {of(core.RiskHigh, `{"new_hash":"sha256:9F04e77b"}`), false, "9f04"},
		"NoAlgorithm":  {of(core.RiskHigh, `{"new_hash":"9f04e77b"}`), false, "9f04"},
		"Run":          {of(core.RiskHigh, `{}`), false, "7f3a"},
		"ShortHash":    {of(core.RiskHigh, `{"new_hash":"sha256:9"}`), false, "7f3a"},
		"StrangeHash":  {of(core.RiskHigh, `{"new_hash":"sha256:\u202e\u202e"}`), false, "7f3a"},
		"NoObject":     {of(core.RiskHigh, `[`), false, "7f3a"},
		"UnknownRisk":  {of("extreme", `{}`), false, "7f3a"},
		"NoRisk":       {of("", `{}`), false, "7f3a"},
		"Pause":        {core.Approval{ID: "41d2e07b", Type: core.ApproveLayer}, false, ""},
		"OnlyApproval": {core.Approval{Risk: core.RiskHigh, ID: "41d2e07b"}, false, "41d2"},
		"NothingAtAll": {core.Approval{Risk: core.RiskHigh}, false, "high"},
	} {
		if got := approval.Confirmation(c.a, c.scripts); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
