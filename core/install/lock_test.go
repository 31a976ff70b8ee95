package install_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/install"
)

func demoEntry(t *testing.T) install.LockEntry {
	t.Helper()
	spec := demoSpec(t)
	r, err := newFake(t.TempDir(), &fakeNPM{}).Resolve(t.Context(), spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	e := r.Entry(spec)
	e.Tools = map[string]string{"a/b": install.ToolDigest(core.Tool{Name: "a/b"})}
	return e
}

func TestLock_RoundTripAndMerge(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pml.lock")
	e := demoEntry(t)
	for _, l := range []map[string]install.LockEntry{{"b": e}, {"a": {CommandDigest: e.CommandDigest}, "c": e}, {"c": {}}} {
		if err := (install.Lock{Servers: l}).Write(file); err != nil {
			t.Fatal(err)
		}
	}
	got, err := install.ReadLock(file)
	if err != nil {
		t.Fatal(err)
	}
	b := got.Servers["b"]
	// It is indented in the file; what it says is what counts.
	if a, err := core.Digest(b.NPM); err != nil || a != mustDigest(t, e.NPM) {
		t.Error("npm's lock changed", err)
	}
	b.NPM = e.NPM
	got.Servers["b"] = b
	want := install.Lock{Version: 1, Servers: map[string]install.LockEntry{"a": {CommandDigest: e.CommandDigest}, "b": e}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func mustDigest(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	d, err := core.Digest(raw)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestParseLock_Faults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"version":1,}`:                   "1:14: ",
		`{}`:                               "/version: is missing",
		"{\"version\":1,\n \"server\":{}}": `2:2:/server: unknown key "server" (did you mean servers`,
		`{"version":1,"servers":[]}`:       "1:24:/servers: must be an object",
		`{"version":1,"servers":{"a":{"tools":{"t":"x"}}}}`:                                                             "/servers/a/tools/t: must be \"sha256:\"",
		`{"version":1,"servers":{"a":{},"a":{}}}`:                                                                       "1:32:/servers/a: is there twice",
		`{"version":1,"servers":{"a":{"package":"x","version":"1","digest":"sha256:` + strings.Repeat("0", 64) + `"}}}`: "digest is not that of the packages",
	} {
		_, err := install.ParseLock("pml.lock", []byte(text))
		if core.CodeOf(err) != core.CodeInvalidConfig || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\nwant %s", text, err, want)
		}
	}
	if _, err := install.ParseLock("pml.lock", []byte(`{"version":2,"new":1}`)); core.CodeOf(err) != core.CodeStoreNewer {
		t.Error(err)
	}
}

func TestLock_WriteLeavesABrokenFileAlone(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pml.lock")
	if err := os.WriteFile(file, []byte("<<<<"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (install.Lock{}).Write(file); core.CodeOf(err) != core.CodeInvalidConfig {
		t.Error(err)
	}
	if raw, err := os.ReadFile(file); err != nil || string(raw) != "<<<<" {
		t.Errorf("%q %v", raw, err)
	}
}

func FuzzParseLock(f *testing.F) {
	for _, s := range []string{`{"version":1,"servers":{}}`, `{"version":1,"servers":{"a":{"tools":{"t":""},"packages":[{"name":"x"}]}}}`, `{"version":1,"version":{}}`, `[]`, `{"a`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		l, err := install.ParseLock("pml.lock", raw)
		if err != nil {
			if c := core.CodeOf(err); c != core.CodeInvalidConfig && c != core.CodeStoreNewer {
				t.Error(c, err)
			}
			return
		}
		out, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := install.ParseLock("pml.lock", out); err != nil {
			t.Errorf("what was read cannot be read again: %v\n%s", err, out)
		}
	})
}
