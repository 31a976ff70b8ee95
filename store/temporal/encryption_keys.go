package temporal

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
)

// Key is a secret with which an installation encrypts what it keeps in Temporal and in the blobs.
type Key struct {
	// ID names the key in clear in all that was written with it.
	ID     string
	Secret [32]byte `json:"-"`
}

// Format implements fmt.Formatter: whatever prints or logs a key says its id only.
func (k Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "key "+k.ID) }

// Keys are the keys of an installation: the first one writes, all read. None: everything stays in clear.
type Keys []Key

// keyIDLimit is how long the id of a key may be: each payload carries it.
const keyIDLimit = 64

// wrong says what is wrong with a key that follows on others; empty: nothing.
func (k Key) wrong(before Keys) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r)
	}
	switch {
	case k.ID == "" || len(k.ID) > keyIDLimit || strings.ContainsFunc(k.ID, func(r rune) bool { return !plain(r) }):
		return fmt.Sprintf("its id is not 1 to %d letters, digits, dots, underscores and dashes", keyIDLimit) // which may be a secret in the wrong place
	case k.Secret == [32]byte{}:
		return fmt.Sprintf("the key %s is nothing but zeros", k.ID)
	}
	for _, other := range before {
		if other.ID == k.ID {
			return "there are two keys " + k.ID
		}
		if other.Secret == k.Secret {
			return fmt.Sprintf("the keys %s and %s are the same 32 bytes", other.ID, k.ID)
		}
	}
	return ""
}

// ParseKeys reads keys from lines of the form ID:BASE64, of 32 bytes each. Blank lines and those that
// begin with # say nothing. Whatever is wrong is named in one error, which has nothing of the keys themselves.
func ParseKeys(text []byte) (Keys, error) {
	keys, faults := parseKeys(text)
	return keys, unusable("", faults)
}

// ReadKeys reads keys from a file as ParseKeys does, which nobody but its owner may read (mode 0600 or 0400).
func ReadKeys(path string) (Keys, error) {
	text, open, err := readPrivate(path)
	if err != nil {
		return nil, core.Errorf(core.CodeInvalidConfig, "cannot read the keys of Temporal's payloads: %w", err)
	}
	keys, faults := parseKeys(text)
	if open != "" {
		faults = slices.Insert(faults, 0, core.Fault{Message: open})
	}
	return keys, unusable(path, faults)
}

// keysLimit is how large a file of keys may be: what is larger is something else.
const keysLimit = 1 << 20

// readPrivate reads a file, and says who else may read it; empty: nobody.
func readPrivate(path string) (text []byte, open string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, "", err
	}
	if !info.Mode().IsRegular() || info.Size() > keysLimit {
		return nil, "", fmt.Errorf("%s is no file of keys", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, "", err
	}
	if info, err = f.Stat(); err == nil { // of the file that is read
		text, err = io.ReadAll(io.LimitReader(f, keysLimit))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, "", err
	}
	if mode := info.Mode().Perm(); runtime.GOOS != "windows" && mode&0o077 != 0 {
		open = fmt.Sprintf("others may read it (mode %04o); chmod 600 it, and use new keys if somebody has", mode)
	}
	return text, open, nil
}

// unusable is the error of keys that have faults, nil without any.
func unusable(file string, faults []core.Fault) error {
	if len(faults) == 0 {
		return nil
	}
	for i := range faults {
		faults[i].File = file
	}
	err := core.Errorf(core.CodeInvalidConfig, "the keys of Temporal's payloads cannot be used; each line is ID:BASE64 of 32 bytes, as of: echo \"2026a:$(openssl rand -base64 32)\"")
	err.Faults = faults
	return err
}

func parseKeys(text []byte) (keys Keys, faults []core.Fault) {
	number := 0
	for line := range bytes.Lines(text) {
		number++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		key, wrong := parseKey(line)
		if wrong == "" {
			wrong = key.wrong(keys)
		}
		if wrong != "" {
			faults = append(faults, core.Fault{At: &core.Position{Line: number, Column: 1}, Message: wrong})
			continue
		}
		keys = append(keys, key)
	}
	if len(keys)+len(faults) == 0 {
		faults = []core.Fault{{Message: "there is no key"}}
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return keys, nil
}

// parseKey reads one line. What is wrong with it is told without what may be a secret.
func parseKey(line []byte) (k Key, wrong string) {
	id, secret, ok := bytes.Cut(line, []byte(":"))
	if !ok {
		return k, "there is no colon between an id and a key"
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(string(bytes.TrimSpace(secret)))
	if err != nil {
		return k, "what follows on the colon is no base64"
	}
	if len(raw) != len(k.Secret) {
		return k, fmt.Sprintf("the key has %d bytes, not %d", len(raw), len(k.Secret))
	}
	return Key{ID: string(bytes.TrimSpace(id)), Secret: [32]byte(raw)}, ""
}
