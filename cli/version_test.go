package cli_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/casys-ai/pml/cli/app"
)

// The flag answers as the command does, in every format, before or after others.
func TestVersion_Flag(t *testing.T) {
	t.Parallel()
	for _, more := range [][]string{nil, {"--json"}, {"-o", "yaml"}} {
		want := (&shell{}).run(append([]string{"version"}, more...)...).want(t, 0).out
		for _, flag := range []string{"--version", "-v"} {
			after := (&shell{}).run(append([]string{flag}, more...)...).want(t, 0).out
			before := (&shell{}).run(append(append([]string{}, more...), flag)...).want(t, 0).out
			if after != want || before != want || want == "" {
				t.Errorf("%s %v: %q and %q, want %q", flag, more, after, before, want)
			}
		}
	}
	var v app.Version
	if err := json.Unmarshal([]byte((&shell{}).run("--version", "--json").out), &v); err != nil || v.Version == "" {
		t.Errorf("%+v, %v", v, err)
	}
}

// Help says what a person looks for who sets pml up for a host.
func TestHelp_Setup(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"stdio", "serve"} {
		(&shell{}).run(name, "--help").want(t, 0).has(t, "out", "expose", "PML_WORKSPACE", "PML_LOG")
	}
	help := (&shell{}).run("init", "--help").want(t, 0).out
	list := (&shell{}).run("__complete", "init", "--host", "").want(t, 0).out
	for host := range strings.Lines(list) {
		if host = strings.TrimSpace(host); host != "" && !strings.HasPrefix(host, ":") && !strings.Contains(help, host) {
			t.Errorf("help does not know %s", host)
		}
	}
	(&shell{}).run("__complete", "init", "--host", "").has(t, "out", "claude-code\n", "codex\n", "claude-desktop\n")
}
