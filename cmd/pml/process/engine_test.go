package process

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
)

func TestEngineOf(t *testing.T) {
	t.Parallel()
	for address, code := range map[string]core.Code{
		"temporal://127.0.0.1:7233/default":             "",
		"temporal://h/ns?blobs=/b":                      "",
		"temporal://h":                                  core.CodeInvalidArguments,
		"temporal:///ns":                                core.CodeInvalidArguments,
		"postgres://h/db":                               core.CodeInvalidArguments,
		"h:7233":                                        core.CodeInvalidArguments,
		"temporal://ann:very-secret@h:7233/ns":          core.CodeInvalidArguments,
		"temporal://ann:very-secret@h:7233/ns\x7f":      core.CodeInvalidArguments,
		"temporal://127.0.0.1:7233/default?keys=/a%20b": "",
	} {
		own, at, err := engineOf(address)
		if core.CodeOf(err) != code || own != nil || (err == nil) != (at != nil) {
			t.Errorf("%q: %v %v %v", address, own, at, err)
		}
		if err != nil && strings.Contains(err.Error(), "very-secret") {
			t.Errorf("the error has the password: %v", err)
		}
	}
}

// TestCompanion: the program is found in PATH; pml under its name is not taken for it.
func TestCompanion(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("programs have other names there")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	loops, has := t.TempDir(), t.TempDir()
	if err := os.Symlink(self, filepath.Join(loops, "pml-temporal")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", loops)
	if found, err := companion("pml-temporal"); core.CodeOf(err) != core.CodeInvalidConfig || !strings.Contains(err.Error(), "go build -o") {
		t.Errorf("%q %v", found, err)
	}
	want := filepath.Join(has, "pml-temporal")
	if err := os.WriteFile(want, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", has)
	if found, err := companion("pml-temporal"); err != nil || found != want {
		t.Errorf("%q %v", found, err)
	}
}
