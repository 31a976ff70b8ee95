package service_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// file is the content of a file of the workspace, or of the home if its path
// is absolute.
func (m *machine) file(name string) (string, fs.FileMode) {
	m.t.Helper()
	if !filepath.IsAbs(name) {
		name = filepath.Join(m.ws, name)
	}
	fi, err := os.Stat(name)
	if err != nil {
		m.t.Fatal(err)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		m.t.Fatal(err)
	}
	return string(data), fi.Mode().Perm()
}

func (m *machine) chmod(name string, mode fs.FileMode) {
	m.t.Helper()
	if err := os.Chmod(filepath.Join(m.ws, name), mode); err != nil {
		m.t.Fatal(err)
	}
}

// trust trusts what the workspace's files grant.
func (c *client) trust() {
	c.t.Helper()
	s, err := c.Trust(c.ctx())
	if err == nil {
		err = c.SetTrust(c.ctx(), s.Digest, rightPin)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) trusted() bool {
	c.t.Helper()
	s, err := c.Trust(c.ctx())
	if err != nil {
		c.t.Fatal(err)
	}
	return s.Trusted
}

func (c *client) adding(e api.ServerEntry) api.ChangeSet {
	c.t.Helper()
	set, err := c.AddServer(c.ctx(), e)
	if err != nil {
		c.t.Fatal(err)
	}
	return set
}

const ownConfig = "{\n  // mine\n  \"permissions\": {\"allow\": [\"workspace:stat\"]}\n}\n"

func TestWrite_KeepsTrust(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ trusted, keep, want bool }{
		"Kept":          {trusted: true, keep: true, want: true},
		"NotAskedFor":   {trusted: true},
		"WasNotTrusted": {keep: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			m.write(".pml.json", ownConfig)
			m.chmod(".pml.json", 0o640)
			cl := m.client()
			if c.trusted {
				cl.trust()
			}
			set := cl.adding(api.ServerEntry{Name: "mem", Command: "npx", Args: []string{"-y", "server-memory@1"}})
			trusted, err := cl.Write(cl.ctx(), set, c.keep, "")
			if err != nil || trusted != c.want || cl.trusted() != c.want {
				t.Errorf("%v %v, want %v", trusted, err, c.want)
			}
			if text, mode := m.file(".pml.json"); mode != 0o640 || !strings.Contains(text, "// mine") || !strings.Contains(text, "server-memory@1") {
				t.Errorf("%s %s", mode, text)
			}
		})
	}
}

// Trust that is carried over a change needs the PIN; a change without it is
// written, and is not trusted.
func TestWrite_Pin(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.setPin(rightPin)
	m.write(".pml.json", ownConfig)
	c := m.client()
	c.trust()
	set := c.adding(api.ServerEntry{Name: "mem", Command: "npx", Args: []string{"server-memory"}})
	for _, pin := range []string{"", "letmein1"} {
		_, err := c.Write(c.ctx(), set, true, pin)
		code(t, err, core.CodeAuth)
	}
	if text, _ := m.file(".pml.json"); text != ownConfig {
		t.Fatal("it was written without the PIN")
	}
	if trusted, err := c.Write(c.ctx(), set, true, rightPin); err != nil || !trusted {
		t.Error(trusted, err)
	}
	set = c.adding(api.ServerEntry{Name: "mem2", Command: "npx", Args: []string{"server-memory"}})
	if trusted, err := c.Write(c.ctx(), set, false, ""); err != nil || trusted {
		t.Error(trusted, err)
	}
}

// A change is written over the file that it was made from, or not at all.
func TestWrite_OverAnotherFile(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(*machine){
		"Edited":      func(m *machine) { m.write(".pml.json", strings.Replace(ownConfig, "mine", "ours", 1)) },
		"Removed":     func(m *machine) { _ = os.Remove(filepath.Join(m.ws, ".pml.json")) },
		"KeysEdited":  func(m *machine) { m.write(".env", "A=1\n") },
		"KeysAppear":  func(m *machine) { m.write(".env", "") },
		"EditedSince": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			m.write(".pml.json", ownConfig)
			c := m.client()
			set := c.adding(api.ServerEntry{Name: "s", Command: "npx", Args: []string{"s"}, Env: map[string]string{"API_KEY": "k-1234567890"}})
			if meanwhile != nil {
				meanwhile(m)
			} else {
				set.Changes[1].After = []byte(`{"permissions": {"allow": ["*"]}}`)
			}
			_, err := c.Write(c.ctx(), set, true, "")
			code(t, err, core.CodeDigestMismatch)
			if data, err := os.ReadFile(filepath.Join(m.ws, ".pml.json")); err == nil && strings.Contains(string(data), "npx") {
				t.Error("it was written all the same")
			}
			if data, err := os.ReadFile(filepath.Join(m.ws, ".env")); err == nil && strings.Contains(string(data), "API_KEY") {
				t.Error("the keys were written all the same")
			}
		})
	}
}

func TestWrite_NewFiles(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := m.client()
	set := c.adding(api.ServerEntry{Name: "s", Command: "npx", Args: []string{"s"}, Env: map[string]string{"API_KEY": "k-1234567890"}})
	trusted, err := c.Write(c.ctx(), set, true, "")
	if err != nil || !trusted {
		t.Fatal(trusted, err)
	}
	if text, mode := m.file(".env"); text != "API_KEY=k-1234567890\n" || mode != 0o600 {
		t.Errorf("%q %s", text, mode)
	}
	if text, mode := m.file(".pml.json"); strings.Contains(text, "k-1234567890") || !strings.Contains(text, "${API_KEY}") || mode != 0o644 {
		t.Errorf("%q %s", text, mode)
	}
	set = c.adding(api.ServerEntry{Name: "h", Command: "npx", Args: []string{"h"}, Home: true})
	if _, err := c.Write(c.ctx(), set, false, ""); err != nil {
		t.Fatal(err)
	}
	if text, mode := m.file(filepath.Join(m.home, "config.json")); !strings.Contains(text, `"h"`) || mode != 0o600 {
		t.Errorf("%q %s", text, mode)
	}
	for _, dir := range []string{m.ws, m.home} {
		if left, err := filepath.Glob(filepath.Join(dir, "*.new-*")); err != nil || len(left) > 0 {
			t.Error(left, err)
		}
	}
}

// A link within the workspace is followed, and stays one; a link out of it is
// not: whoever cloned the repository did not choose the file.
func TestWrite_Links(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.write("real.json", ownConfig)
	outside := filepath.Join(filepath.Dir(m.ws), "outside.env")
	if err := os.WriteFile(outside, []byte("A=1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{".pml.json": "real.json", ".env": outside} {
		if err := os.Symlink(to, filepath.Join(m.ws, link)); err != nil {
			t.Fatal(err)
		}
	}
	c := m.client()
	set := c.adding(api.ServerEntry{Name: "s", Command: "npx", Args: []string{"s"}})
	if _, err := c.Write(c.ctx(), set, false, ""); err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Lstat(filepath.Join(m.ws, ".pml.json")); err != nil || fi.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v", err)
	}
	if text, _ := m.file("real.json"); !strings.Contains(text, `"s"`) {
		t.Error(text)
	}
	set = c.adding(api.ServerEntry{Name: "k", Command: "npx", Args: []string{"k"}, Env: map[string]string{"API_KEY": "k-1234567890"}})
	_, err := c.Write(c.ctx(), set, false, "")
	if e := code(t, err, core.CodeInvalidArguments); !strings.Contains(e.Message, "symbolic link") {
		t.Error(e)
	}
	if data, err := os.ReadFile(outside); err != nil || string(data) != "A=1\n" {
		t.Errorf("%s %v", data, err)
	}
	if text, _ := m.file("real.json"); strings.Contains(text, `"k"`) {
		t.Error("half of the changes was written")
	}
	set.Changes[0].File = outside
	_, err = c.Write(c.ctx(), set, false, "")
	code(t, err, core.CodeDigestMismatch)
}

func TestRuleFor(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.write(".pml.json", ownConfig)
	c := m.client()
	r := c.execute(writes, api.StatusApprovalRequired)
	rule, err := c.RuleFor(c.ctx(), r.CheckpointID)
	if err != nil || rule.List != "allow" || rule.Pattern != "workspace:write_file" || rule.Approval != r.CheckpointID ||
		rule.Change.File != filepath.Join(m.ws, ".pml.json") || !strings.Contains(rule.Change.Diff, `+`) || !strings.Contains(rule.Change.Diff, "workspace:write_file") {
		t.Fatalf("%v %+v", err, rule)
	}
	if text, _ := m.file(".pml.json"); text != ownConfig {
		t.Error("it was written")
	}
	theirs := core.Approval{ID: newID(), Type: core.ApproveTool, Tool: "workspace:write_file", Workspace: m.ws, Side: core.SideServer}
	if of, err := c.RuleOf(c.ctx(), theirs); err != nil || of.Approval != theirs.ID || of.Change.Diff != rule.Change.Diff {
		t.Errorf("of the server: %v %+v", err, of)
	}
	layer, err := c.Execute(c.ctx(), api.ExecuteRequest{
		Code: `await mcp.workspace.stat({path: "a.txt"}); await mcp.workspace.read_file({path: "a.txt"}); return 1`, By: me, Wait: -1,
		RunOptions: core.RunOptions{PerLayer: true},
	})
	if err != nil || layer.Status != api.StatusLayerComplete {
		t.Fatalf("%v %+v", err, layer)
	}
	_, err = c.RuleFor(c.ctx(), layer.CheckpointID)
	code(t, err, core.CodeInvalidArguments)
	_, err = c.RuleFor(c.ctx(), newID())
	code(t, err, core.CodeNotFound)
}
