package cli_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core/api"
)

func pinning(pin string) *fake {
	return &fake{world: world{pin: pin, set: api.ChangeSet{Changes: []api.Change{{
		File: "/h/config.json", Diff: "+  \"approvals\": {\"pin\": \"(a hash)\"}\n", Digest: hashA,
	}}}}}
}

func TestConfigPin(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		set     string // the PIN of now
		args    []string
		secrets []string
		typed   string
		code    int
		pins    [][2]string
		written bool
		says    string
	}{
		{"First", "", nil, []string{"493817", "493817"}, "y\n", 0, [][2]string{{"", "493817"}}, true, "It does not hold against"},
		{"Yes", "", []string{"--yes"}, []string{"493817", "493817"}, "", 0, [][2]string{{"", "493817"}}, true, "(a hash)"},
		{"Another", "111111", nil, []string{"111111", "493817", "493817"}, "y\n", 0, [][2]string{{"111111", "493817"}}, true, ""},
		{"WrongOld", "111111", nil, []string{"222222", "493817", "493817"}, "y\n", 4, [][2]string{{"222222", "493817"}}, false, "not the PIN"},
		{"NotTheSame", "", nil, []string{"493817", "493818"}, "y\n", 2, nil, false, "not the same"},
		{"TooShort", "", nil, []string{"12345"}, "", 2, nil, false, "a PIN has at least 6 characters"},
		{"Remove", "111111", []string{"--remove"}, []string{"111111"}, "y\n", 0, [][2]string{{"111111", ""}}, true, "remove the PIN?"},
		{"NothingToRemove", "", []string{"--remove"}, []string{}, "", 2, nil, false, "no PIN to remove"},
		{"No", "", nil, []string{"493817", "493817"}, "n\n", 9, [][2]string{{"", "493817"}}, false, "nothing was written"},
		{"EOF", "", nil, []string{}, "y\n", 4, nil, false, ""},
		{"EmptyNew", "", nil, []string{"", ""}, "y\n", 4, nil, false, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := (&shell{tty: true, stdin: tt.typed, secrets: tt.secrets, fake: pinning(tt.set)}).run(append([]string{"config", "pin"}, tt.args...)...).
				want(t, tt.code).has(t, "err", tt.says)
			if diff := cmp.Diff(tt.pins, s.fake.world.pins); diff != "" {
				t.Error(diff)
			}
			if tt.written != (s.fake.world.written != nil) {
				t.Errorf("written: %+v", s.fake.world.written)
			}
			for _, secret := range []string{"493817", "111111", "222222"} {
				if strings.Contains(s.out+s.err, secret) {
					t.Errorf("%s was shown", secret)
				}
			}
		})
	}
	(&shell{stdin: "493817\n493817\n", secrets: []string{"493817", "493817"}, fake: pinning("")}).run("config", "pin").want(t, 4).has(t, "err", "at a terminal")
	s := (&shell{tty: true, secrets: []string{"493817", "493817"}, fake: pinning("")}).run("config", "pin", "--json").want(t, 2)
	if s.opened > 0 || len(s.prompts) > 0 {
		t.Error("asked although the output is for a program")
	}
}

func TestTrust_Pin(t *testing.T) {
	t.Parallel()
	locked := func() *fake {
		f := pinning("493817")
		f.trust = api.TrustState{Workspace: "/w", Digest: hashA, Content: "x"}
		return f
	}
	for _, args := range [][]string{{"trust"}, {"trust", "--yes"}} {
		s := (&shell{tty: true, stdin: "yes\n", secrets: []string{"493817"}, fake: locked()}).run(args...).want(t, 0)
		if s.fake.trusted != hashA || s.fake.trustPin != "493817" || strings.Contains(s.out+s.err, "493817") {
			t.Errorf("%v: trusted %q with %q", args, s.fake.trusted, s.fake.trustPin)
		}
	}
	s := (&shell{stdin: "493817\n", secrets: []string{"493817"}, fake: locked()}).run("trust", "--yes").want(t, 4).has(t, "err", "at a terminal")
	if s.fake.trusted != "" {
		t.Error("trusted without the PIN")
	}
	s = (&shell{fake: locked()}).run("trust", "--show").want(t, 0)
	if len(s.prompts) > 0 {
		t.Error("looking needs no PIN")
	}
}
