package registrytest_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core/install/registrytest"
	"github.com/casys-ai/pml/core/skiptest"
)

func get(t *testing.T, url string) (status int, body string, err error) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(raw), err
}

func TestRegistry_Modes(t *testing.T) {
	t.Parallel()
	r := registrytest.New(t)
	r.Publish(registrytest.Package{Name: "@a/b", Version: "1.0.0"})
	if status, body, err := get(t, r.URL+"/@a%2fb"); err != nil || status != 200 || !strings.Contains(body, `"latest":"1.0.0"`) || !strings.Contains(body, "sha512-") {
		t.Error(status, body, err)
	}
	if status, _, _ := get(t, r.URL+"/none"); status != 404 {
		t.Error(status)
	}
	r.Break("@a", registrytest.Fails)
	r.Break("@a/b/-/", registrytest.Cuts)
	if status, _, _ := get(t, r.URL+"/@a%2fb"); status != 500 {
		t.Error(status)
	}
	if _, body, err := get(t, r.URL+"/@a/b/-/b-1.0.0.tgz"); err == nil || body == "" {
		t.Error("not cut", len(body), err)
	}
	if n := r.Requests("@a/b"); n != 3 {
		t.Error(n)
	}
	r.Break("@a", registrytest.Hangs)
	answered := make(chan error)
	go func() {
		_, _, err := get(t, r.URL+"/@a%2fb?hanging")
		answered <- err
	}()
	r.Await("@a/b", 4)
	r.Down()
	if err := <-answered; err == nil {
		t.Error("a hanging request was answered")
	}
	if _, _, err := get(t, r.URL); err == nil {
		t.Error("it answers after its end")
	}
}

// A server's tools change while it runs, and it says so.
func TestServer_Becomes(t *testing.T) {
	t.Parallel()
	node := skiptest.Tool(t, "node")
	p := registrytest.Server("@a/b", "1.2.3", registrytest.Tool{Name: "become", Description: "Before."})
	dir := t.TempDir()
	p.Files["package.json"] = `{"name":"@a/b","version":"1.2.3"}`
	for name, content := range p.Files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(node, filepath.Join(dir, p.Bin["b"]), "--flag")
	cmd.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/list"}
{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"become","arguments":{"tools":[{"name":"x","inputSchema":{}}]}}}
{"jsonrpc":"2.0","id":4,"method":"tools/list"}
{"jsonrpc":"2.0","id":5,"method":"wat"}
`)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`"serverInfo":{"name":"@a/b","version":"1.2.3"}`, `"description":"Before."`, `notifications/tools/list_changed`,
		`\"argv\":[\"--flag\"]`, `"tools":[{"name":"x","inputSchema":{}}]`, `-32601`,
	}
	lines := bufio.NewScanner(strings.NewReader(string(out)))
	for _, w := range want {
		if !lines.Scan() || !strings.Contains(lines.Text(), w) || !json.Valid(lines.Bytes()) {
			t.Errorf("%q, want %q", lines.Text(), w)
		}
	}
}
