package env

import (
	"encoding/json"

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

// RemoveRule returns the text of a configuration file without the first rule of a list of
// its permissions that is one of those; every other byte stays. found is false, and the text
// as it was, where there is none. Errors as for AddRule.
func RemoveRule(name string, text []byte, list string, is func(policy.Rule) bool) (out []byte, gone policy.Rule, found bool, err error) {
	out, err = change(name, text, func(d *jsonc.Doc) (jsonc.Edit, error) {
		permissions, _ := jsonc.Find(d.Root, "permissions")
		rules, _ := jsonc.Find(permissions.Value, list)
		items, ok := rules.Value.Value.(*jsonc.Array)
		if !ok {
			return jsonc.Edit{}, nil
		}
		for _, v := range items.Elements {
			var r policy.Rule
			plain := v.Clone()
			plain.Standardize()
			if err := json.Unmarshal(plain.Pack(), &r); err == nil && is(r) {
				gone, found = r, true
				return d.RemoveItem(v), nil
			}
		}
		return jsonc.Edit{}, nil
	})
	return out, gone, found, err
}
