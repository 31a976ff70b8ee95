//go:build unix

package pmltest

import (
	"os"
	"testing"
)

// ReadFile is the text of a file.
func ReadFile(t testing.TB, name string) string {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// Truncate shortens a file.
func Truncate(t *testing.T, path string, size int64) {
	t.Helper()
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

// Overwrite writes a file anew.
func Overwrite(t *testing.T, path string, with []byte) {
	t.Helper()
	if err := os.WriteFile(path, with, 0o600); err != nil {
		t.Fatal(err)
	}
}

// ReadBytes is the content of a file.
func ReadBytes(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// Touch makes a file that the recorder waits for.
func Touch(t testing.TB, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
