package hosts_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core/hosts"
)

func TestConceal(t *testing.T) {
	t.Parallel()
	typed := hosts.Entry{
		Name: "git-hub", Command: "npx", Args: []string{"-y", "x", "--token", "ghp_0123456789abcdef"},
		Env:     map[string]string{"API_KEY": "k-1234567890", "MODE": "fast", "OTHER": "${OTHER}"},
		Headers: map[string]string{"Authorization": "Bearer abc.def"},
	}
	got := hosts.Conceal(typed)
	want := hosts.Entry{
		Name: "git-hub", Command: "npx", Args: []string{"-y", "x", "--token", "${GIT_HUB_TOKEN}"},
		Env:     map[string]string{"API_KEY": "${API_KEY}", "MODE": "fast", "OTHER": "${OTHER}"},
		Headers: map[string]string{"Authorization": "Bearer ${GIT_HUB_AUTHORIZATION}"},
		Secrets: map[string]string{"GIT_HUB_TOKEN": "ghp_0123456789abcdef", "API_KEY": "k-1234567890", "GIT_HUB_AUTHORIZATION": "abc.def"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if typed.Env["API_KEY"] != "k-1234567890" || typed.Args[3] != "ghp_0123456789abcdef" {
		t.Error("what was typed was changed")
	}
}

func TestInPlain(t *testing.T) {
	t.Parallel()
	const secret = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
	for _, tt := range []struct {
		entry hosts.Entry
		want  []string
	}{
		{hosts.Entry{Name: "a", Command: "npx", Args: []string{"a", "${TOKEN}"}, Env: map[string]string{"KEY": secret}}, nil},
		{hosts.Entry{Name: "a", Command: "npx", Args: []string{"a", "--token", secret}, Env: map[string]string{"KEY": "other-" + secret}}, []string{"A_TOKEN"}},
		{hosts.Entry{Name: "a", URL: "https://example.com/mcp", Headers: map[string]string{"Authorization": "Bearer " + secret}}, nil},
		{hosts.Entry{Name: "a", URL: "https://example.com/mcp?api_key=" + secret}, []string{"A_API_KEY"}},
	} {
		got := hosts.Conceal(tt.entry)
		if diff := cmp.Diff(tt.want, got.InPlain()); diff != "" || len(got.Secrets) != 1 && len(got.Env) == 0 {
			t.Errorf("%+v: %s", got, diff)
		}
	}
}
