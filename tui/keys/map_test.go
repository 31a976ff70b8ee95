package keys_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/keys"
)

func TestNew_Defaults(t *testing.T) {
	t.Parallel()
	m, err := keys.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range keys.All() {
		if len(m.Keys(a)) == 0 || keys.Label(a) == "" {
			t.Errorf("%s has no key or no label", a)
		}
		for _, k := range m.Keys(a) {
			if !slices.Contains(m.Actions(keys.Key{Name: k}), a) {
				t.Errorf("%s does not mean %s", k, a)
			}
		}
	}
	for _, k := range []string{"enter", "space", "y"} {
		for _, a := range m.Actions(keys.Key{Name: k}) {
			if slices.Contains([]keys.Action{keys.Approve, keys.ApproveRemember, keys.Deny, keys.Abort}, a) {
				t.Errorf("%s decides", k)
			}
		}
	}
	if got := m.Actions(keys.Key{Name: "a", Paste: true}); got != nil {
		t.Errorf("pasted text means %v", got)
	}
}

func TestNew_Custom(t *testing.T) {
	t.Parallel()
	m, err := keys.New(map[string][]string{"approve": {"ctrl+a", "é"}, "help": {}})
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Actions(keys.Key{Name: "ctrl+a"}); !slices.Equal(got, []keys.Action{keys.Approve}) {
		t.Errorf("ctrl+a is %v", got)
	}
	if got := m.Actions(keys.Key{Name: "a"}); slices.Contains(got, keys.Approve) {
		t.Errorf("a is still %v", got)
	}
	if got := m.Keys(keys.Help); len(got) != 0 {
		t.Errorf("help has %v", got)
	}
}

// TestNew_Wrong: all that is wrong is said at once, and nothing is half right.
func TestNew_Wrong(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		custom map[string][]string
		want   []string
	}{
		"unknown action":   {map[string][]string{"aprove": {"a"}}, []string{`"aprove"`, "approve"}},
		"unknown key":      {map[string][]string{"approve": {"hyper+a", "ctrl+é", "ab", "", " ", "\x1b"}}, []string{`"hyper+a"`, `"ctrl+é"`, `"ab"`, `""`, `" "`, `\x1b`}},
		"conflict":         {map[string][]string{"approve": {"d"}}, []string{"d is the key of approve already"}},
		"same key twice":   {map[string][]string{"quit": {"?"}}, []string{"?"}},
		"enter decides":    {map[string][]string{"approve": {"enter"}, "deny": {"space"}}, []string{"enter", "space", "without looking"}},
		"fixed":            {map[string][]string{"quit_now": {"q"}, "back": {}}, []string{"quit_now", "back"}},
		"several at once":  {map[string][]string{"approve": {"d"}, "nope": {"a"}, "help": {"xx"}}, []string{"nope", `"xx"`, "already"}},
		"control in names": {map[string][]string{"a\x1b[31m": {"a"}}, []string{`\x1b`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, err := keys.New(tt.custom)
			if m != nil || core.CodeOf(err) != core.CodeInvalidConfig {
				t.Fatalf("%v", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			if strings.ContainsRune(err.Error(), 0x1b) {
				t.Errorf("%q has a control character", err)
			}
		})
	}
}

// TestNew_OtherPlaces: the same key may mean different things in different
// places.
func TestNew_OtherPlaces(t *testing.T) {
	t.Parallel()
	m, err := keys.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Actions(keys.Key{Name: "space"}); !slices.Equal(got, []keys.Action{keys.Mark, keys.Pause}) {
		t.Errorf("space is %v", got)
	}
	if _, err := keys.New(map[string][]string{"graph": {"space"}}); err != nil {
		t.Errorf("space in the DAG: %v", err)
	}
}

func TestSchema(t *testing.T) {
	t.Parallel()
	var s struct {
		Properties map[string]struct {
			Default     []string
			Description string
		}
	}
	if err := json.Unmarshal(keys.Schema(), &s); err != nil {
		t.Fatal(err)
	}
	custom := map[string][]string{}
	for name, p := range s.Properties {
		custom[name] = p.Default
	}
	if _, err := keys.New(custom); err != nil || len(custom) < 50 {
		t.Errorf("the schema's own defaults (%d) are refused: %v", len(custom), err)
	}
}
