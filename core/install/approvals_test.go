package install_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/install"
)

// The last answer about install scripts counts, for one server of one workspace.
func TestApprovePackage(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	in := newFake(home, nil)
	want := func(key string, scripts, ok bool) {
		t.Helper()
		if s, o := newFake(home, nil).Approvals.PackageApproved(key, "sha256:x"); s != scripts || o != ok {
			t.Errorf("%s: scripts %t, approved %t", key, s, o)
		}
	}
	want("a", false, false)
	for _, scripts := range []bool{false, true, false, true} {
		if err := in.Approvals.ApprovePackage("a", "sha256:x", scripts); err != nil {
			t.Fatal(err)
		}
		want("a", scripts, true)
		want("b", false, false)
	}
	if err := in.Approvals.ApprovePackage("", "sha256:x", true); core.CodeOf(err) != core.CodeInternal {
		t.Error(err)
	}
}

func TestApproved_Newest(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	in := newFake(home, nil)
	approve := func(kind string, digests map[string]string) {
		t.Helper()
		var list []install.Approval
		for key, digest := range digests {
			list = append(list, install.Approval{Kind: kind, Key: key, Digest: digest})
		}
		if err := in.Approvals.ApproveAll(list); err != nil {
			t.Fatal(err)
		}
	}
	approve("tool", map[string]string{"ws\x00s\x00a": "sha256:1", "ws\x00s\x00b": "sha256:2", "ws\x00st\x00a": "sha256:3"})
	approve("tool", map[string]string{"ws\x00s\x00a": "sha256:4"})
	approve("command", map[string]string{"ws\x00s": "sha256:5", "ws\x00st": "sha256:6"})
	below := func() map[string]string {
		t.Helper()
		m, err := in.Approvals.NewestBelow("tool", "ws\x00s\x00")
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	if diff := cmp.Diff(map[string]string{"a": "sha256:4", "b": "sha256:2"}, below()); diff != "" {
		t.Error(diff)
	}
	if !in.Approvals.Approved("tool", "ws\x00s\x00a", "sha256:1") || in.Approvals.Newest("command", "ws\x00s") != "sha256:5" || in.Approvals.Newest("file", "ws\x00s") != "" {
		t.Error(in.Approvals.Newest("command", "ws\x00s"))
	}
	if err := in.Approvals.ForgetBelow("tool", "ws\x00s\x00"); err != nil || len(below()) != 0 || in.Approvals.Newest("command", "ws\x00s") == "" || in.Approvals.Newest("tool", "ws\x00st\x00a") == "" {
		t.Error(below(), err)
	}
	approve("tool", map[string]string{"ws\x00s\x00a": "sha256:1"})
	if err := in.Approvals.Forget("ws\x00s"); err != nil || len(below()) != 0 || in.Approvals.Newest("command", "ws\x00s") != "" || in.Approvals.Newest("command", "ws\x00st") != "sha256:6" {
		t.Error(below(), err)
	}
	if err := in.Approvals.ApproveAll([]install.Approval{{Kind: "tool", Key: "k", Digest: "sha256:1"}, {Kind: "tool", Key: "l"}}); core.CodeOf(err) != core.CodeInternal || in.Approvals.Newest("tool", "k") != "" {
		t.Error("half of a list is approved", err)
	}
	if err := os.WriteFile(filepath.Join(home, ".approved.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Approvals.NewestBelow("tool", ""); core.CodeOf(err) != core.CodeInstallFailed {
		t.Error("a record that cannot be read looks like an empty one", err)
	}
}
