package env

import (
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonc"
	"github.com/casys-ai/pml/core/policy"
)

// AddRule returns the text of a configuration file with one more rule in a
// list of its permissions ("allow", "ask" or "deny"); every other byte stays.
// Empty text counts as an empty file. It writes nothing: the rule is shown to
// a person first. A text that is not valid, and any other list, is
// core.CodeInvalidConfig.
func AddRule(name string, text []byte, list string, rule policy.Rule) ([]byte, error) {
	if list != "allow" && list != "ask" && list != "deny" {
		return nil, core.Errorf(core.CodeInvalidConfig, "there is no list %q in permissions", core.Visible(list, 20, false))
	}
	return change(name, text, func(d *jsonc.Doc) (jsonc.Edit, error) { return d.Append([]string{"permissions", list}, rule) })
}
