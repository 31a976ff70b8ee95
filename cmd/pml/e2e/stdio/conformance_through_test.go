//go:build unix

package stdio_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
)

// differences are the checks that end otherwise through pml than at the server
// itself, "" where a check is not made. docs/gateway.md has the reasons.
type differences map[string][2]string

// inTime is how a check ends through pml that fails on a slow machine only.
const inTime = "SUCCESS or FAILURE"

// The differences of each suite, whatever pml reaches the server over.
var (
	unstreamed = differences{ // by the checks of 2025-11-25
		"server-sse-multiple-streams/server-sse-streams-functional": {"SUCCESS", ""},
		"server-sse-polling/server-sse-priming-event":               {"WARNING", ""},
		"server-sse-polling/server-sse-retry-field":                 {"WARNING", ""},
	}
	throughPML = map[string]differences{
		"0.1.13": unstreamed,
		"0.1.16": unstreamed,
		"0.2.0 for 2025-11-25": {
			"server-sse-multiple-streams/server-sse-streams-functional": {"SUCCESS", ""},
			"server-sse-polling/server-sse-priming-event":               {"WARNING", ""},
			"server-sse-polling/server-sse-retry-field":                 {"SUCCESS", ""},
		},
		"0.2.0 for 2026-07-28": {
			"server-sse-multiple-streams/server-sse-streams-functional":                   {"SUCCESS", ""},
			"server-stateless/sep-2575-server-sends-prompts-list-changed-on-subscription": {"SUCCESS", "WARNING"},
			"server-stateless/sep-2575-server-sends-tools-list-changed-on-subscription":   {"SUCCESS", "WARNING"},
		},
	}
)

// TestConformance_Through: the official suite says of a server through pml, in each
// era and whatever pml reaches it over, what it says of the server itself, but for
// the differences that are known.
func TestConformance_Through(t *testing.T) {
	t.Parallel()
	packages := pmltest.NPMPackages(t, filepath.Join("clients", "conformance"), "ci")
	fixture := pmltest.Build(t, "github.com/modelcontextprotocol/go-sdk/conformance/everything-server") // made for the suite
	for _, over := range []string{"stdio", "HTTP"} {
		for _, revision := range []string{oldRevision, newRevision} {
			t.Run(over+", "+revision, func(t *testing.T) {
				t.Parallel()
				stateless := revision == newRevision
				itself := serveFixture(t, fixture, stateless)
				entry := map[string]any{"command": fixture}
				if over == "HTTP" {
					entry = map[string]any{"url": serveFixture(t, fixture, stateless)}
				}
				url := offeredThrough(t, entry)
				for _, s := range suites {
					if strings.HasSuffix(s.name, newRevision) != stateless {
						continue
					}
					s.compare(t, packages, itself, func() string { return url }, throughPML[s.name])
				}
			})
		}
	}
}

// compare fails where a suite says something else through pml than at the server itself,
// but for what is known. through is the address of a pml in front of it.
func (s suite) compare(t *testing.T, packages, itself string, through func() string, known differences) {
	t.Helper()
	node := nodeFor(t, packages, s.newest)
	// On a busy machine the suite's own time limits end a check: what differs once
	// counts if it differs again.
	diff, said := s.differ(t, node, packages, itself, through(), known)
	if diff != "" {
		diff, said = s.differ(t, node, packages, itself, through(), known)
	}
	if diff != "" {
		t.Errorf("suite %s: what differs through pml is not what is known (- known, + now); mend it, or list it here and in docs/gateway.md:\n%s\n%s", s.name, diff, said)
	}
}

// differ runs a suite at a server itself and through pml. It returns how what differs
// is not what is known, empty if it is, and what the suite says of these checks.
func (s suite) differ(t *testing.T, node, packages, itself, url string, known differences) (diff, said string) {
	t.Helper()
	own, found := s.run(t, node, packages, itself), s.run(t, node, packages, url)
	t.Logf("suite %s: %s; through pml %s", s.name, counts(own), counts(found))
	direct := outcomes(own)
	if passed := strings.Count(fmt.Sprint(direct), "SUCCESS"); passed < 40 {
		t.Errorf("suite %s: only %d checks pass at the server itself", s.name, passed)
	}
	differs := compared(direct, outcomes(found))
	known = maps.Clone(known)
	for id, ends := range known {
		if ends[1] != inTime {
			continue
		}
		if now, ok := differs[id]; !ok || now == [2]string{ends[0], "FAILURE"} {
			delete(known, id)
			delete(differs, id)
		}
	}
	for scenario, checks := range found {
		for _, c := range checks {
			if _, ok := differs[scenario+"/"+c.ID]; ok && c.ErrorMessage != "" {
				said += fmt.Sprintf("%s/%s: %s\n", scenario, c.ID, c.ErrorMessage)
			}
		}
	}
	return cmp.Diff(known, differs), said
}

// serveFixture starts the server of the Go SDK over HTTP and returns its address.
func serveFixture(t *testing.T, fixture string, stateless bool) string {
	t.Helper()
	address := freeAddress(t)
	serving(t, exec.Command(fixture, "-http", address, fmt.Sprintf("-stateless=%v", stateless)), address)
	return "http://" + address + "/"
}

// freeAddress is one at which nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer free.Close()
	return free.Addr().String()
}

// serving starts a server that listens at an address, and ends it with the test.
func serving(t *testing.T, cmd *exec.Cmd, address string) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	pmltest.WaitFor(t, "the server listens", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

// offeredThrough starts a pml that offers a server as a whole and lets all its calls
// through, and returns the address.
func offeredThrough(t *testing.T, entry map[string]any) string {
	t.Helper()
	m := pmltest.BareMachine(t)
	raw, err := json.Marshal(map[string]any{
		"mcpServers": map[string]any{"fix": entry}, "permissions": map[string]any{"allow": []string{"fix"}}, "expose": []string{"fix"},
	})
	if err != nil {
		t.Fatal(err)
	}
	m.Write(".pml.json", string(raw))
	m.OK("trust", "--yes")
	key := strings.TrimSpace(m.OK("server", "key", "add", "suite").Stdout)
	m.Serving("--listen", "127.0.0.1:0")
	return bearing(t, m.Status(0).Server.URL, key) + "/mcp"
}

// counts are how many checks pass, and scenarios of which none fails, of how many.
func counts(found map[string][]check) string {
	passed, made, whole := 0, 0, 0
	for _, checks := range found {
		failed := false
		for _, c := range checks {
			switch c.Status {
			case "SUCCESS":
				passed, made = passed+1, made+1
			case "FAILURE":
				failed = true
				made++
			case "WARNING":
				made++
			}
		}
		if !failed {
			whole++
		}
	}
	return fmt.Sprintf("%d of %d checks, %d of %d scenarios", passed, made, whole, len(found))
}

// outcomes are how the checks have ended, by scenario and check: a check may be made
// several times. What only informs is left out.
func outcomes(found map[string][]check) map[string]string {
	all := map[string][]string{}
	for scenario, checks := range found {
		for _, c := range checks {
			if c.Status != "INFO" {
				id := scenario + "/" + c.ID
				all[id] = append(all[id], c.Status)
			}
		}
	}
	out := map[string]string{}
	for id, statuses := range all {
		slices.Sort(statuses)
		out[id] = strings.Join(statuses, " ")
	}
	return out
}

// compared are the checks that ended in another way, but for those that pass only
// through pml.
func compared(direct, through map[string]string) differences {
	out := differences{}
	for id, status := range direct {
		ends := strings.Fields(through[id])
		passes := len(ends) > 0 && !slices.ContainsFunc(ends, func(s string) bool { return s != "SUCCESS" })
		if through[id] != status && !passes {
			out[id] = [2]string{status, through[id]}
		}
	}
	for id, status := range through {
		if direct[id] == "" {
			out[id] = [2]string{"", status}
		}
	}
	return out
}

// TestConformance_Told: docs/gateway.md names every difference with its reason, and
// no other.
func TestConformance_Told(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(repository(t), "docs", "gateway.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, known := range []map[string]differences{throughPML, throughTypeScript, throughTypeScript1, throughTypeScriptStdio} {
		for suite, all := range known {
			for id := range all {
				_, name, _ := strings.Cut(id, "/")
				if !strings.Contains(string(text), "`"+name+"`") {
					t.Errorf("docs/gateway.md does not say why %s of suite %s differs", id, suite)
				}
			}
		}
	}
}
