package gate_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core/asked"
)

// TestPermission_FileChange: what a call would do to a file is part of the question;
// nothing outside of the workspace and no .env is read for it.
func TestPermission_FileChange(t *testing.T) {
	t.Parallel()
	p := settle(t, `{}`).trust()
	p.write("a.txt", "one\ntwo\n")
	p.write(".env", "TOKEN=very-secret-value\n")
	p.write("keyed.txt", "x = very-secret-value\n")
	outside := filepath.Join(filepath.Dir(p.ws.Dir), "outside.txt")
	if err := os.WriteFile(outside, []byte("outside\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"link.txt": outside, "keys.txt": ".env"} {
		if err := os.Symlink(to, p.file(name)); err != nil {
			t.Fatal(err)
		}
	}
	p.open()
	for name, tt := range map[string]struct {
		tool, args string
		state      asked.FileState
		has        string
	}{
		"Changed":   {"workspace:write_file", `{"path":"a.txt","content":"one\n2\n"}`, asked.FileChanged, "-two\n+2\n"},
		"Edited":    {"workspace:edit_file", `{"path":"a.txt","old":"two","new":"2"}`, asked.FileChanged, "-two\n+2\n"},
		"NotThere":  {"workspace:edit_file", `{"path":"a.txt","old":"three","new":"2"}`, asked.FileUnknown, "does not occur"},
		"New":       {"workspace:write_file", `{"path":"b.txt","content":"x\n"}`, asked.FileNew, `"added":1`},
		"Linked":    {"workspace:write_file", `{"path":"link.txt","content":"x\n"}`, asked.FileUnknown, "link"},
		"Outside":   {"workspace:write_file", `{"path":"../outside.txt","content":"x\n"}`, asked.FileUnknown, "workspace"},
		"Absolute":  {"workspace:write_file", `{"path":"` + outside + `","content":"x\n"}`, asked.FileUnknown, "workspace"},
		"DotEnv":    {"workspace:write_file", `{"path":"keys.txt","content":"x\n"}`, asked.FileUnknown, "never read"},
		"Folder":    {"workspace:write_file", `{"path":".","content":"x\n"}`, asked.FileUnknown, "folder"},
		"KeysValue": {"workspace:write_file", `{"path":"keyed.txt","content":"x = 1\n"}`, asked.FileChanged, "+x = 1"},
		"NoFile":    {"workspace:move_file", `{"from":"a.txt","to":"b.txt"}`, "", ""},
		"Elsewhere": {"fake:write", `{}`, "", ""},
	} {
		v := p.want(tt.tool, tt.args, "tool_permission")
		raw, err := json.Marshal(v.Ask[0].Context)
		if err != nil {
			t.Fatal(err)
		}
		var c struct {
			File asked.File `json:"file"`
		}
		if err := json.Unmarshal(raw, &c); err != nil {
			t.Fatal(err)
		}
		whole, _ := json.Marshal(c.File)
		if c.File.State != tt.state || !strings.Contains(string(whole)+c.File.Diff, tt.has) {
			t.Errorf("%s: %+v", name, c.File)
		}
		for _, secret := range []string{"very-secret-value", "outside\\n"} {
			if strings.Contains(string(raw), secret) {
				t.Errorf("%s: %q was read: %s", name, secret, raw)
			}
		}
	}
}
