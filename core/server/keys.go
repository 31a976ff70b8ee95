package server

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/atomicfile"
)

// tokenPrefix marks a key of pml, so that scanners of secrets know it.
const tokenPrefix = "pml_"

var keyName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// Key is who may call over TCP. Its name is the owner of the runs that it
// starts; the key itself is kept nowhere, only its hash.
type Key struct {
	Name      string    `json:"name"`
	Hash      string    `json:"sha256"`
	CreatedAt time.Time `json:"created_at"`
}

// Keys are the API keys in a folder, one file each. Changes of the folder count
// at once.
type Keys struct {
	dir   string
	clock core.Clock
	open  func(path string) ([]byte, error) // os.ReadFile

	mu    sync.Mutex
	state string // of the folder when it was read
	keys  []Key
	bad   error // of a file that is damaged: its key is worth nothing, the others are
}

// NewKeys returns the keys in a folder, which need not exist.
func NewKeys(dir string, clock core.Clock) *Keys {
	return &Keys{dir: dir, clock: clock, open: os.ReadFile}
}

// Create makes a key and returns its token, which is not shown again.
func (k *Keys) Create(name string) (token string, err error) {
	if !keyName.MatchString(name) {
		return "", core.Errorf(core.CodeInvalidArguments, "%q is no name for a key: use a to z, 0 to 9, - and _, at most 63 of them", core.Visible(name, 70, false))
	}
	raw := make([]byte, 32)
	if _, err := rand.Read(raw); err != nil {
		return "", core.Errorf(core.CodeInternal, "no random bytes for a key: %w", err)
	}
	token = tokenPrefix + base64.RawURLEncoding.EncodeToString(raw)
	data, err := json.MarshalIndent(Key{Name: name, Hash: hashOf(token), CreatedAt: k.clock.Now().UTC()}, "", "  ")
	if err != nil {
		return "", core.AsError(err)
	}
	if err := os.MkdirAll(k.dir, 0o700); err != nil {
		return "", core.Errorf(core.CodeStoreFailed, "the folder of the keys cannot be made: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, err := os.Lstat(k.file(name)); err == nil {
		return "", core.Errorf(core.CodeInvalidArguments, "there is a key %q already; remove it first, or take another name", name)
	}
	if err := atomicfile.Write(k.file(name), append(data, '\n'), 0o600); err != nil {
		return "", core.Errorf(core.CodeStoreFailed, "the key %q cannot be kept: %w", name, err)
	}
	return token, nil
}

// List returns the keys by name. With an error about a damaged file come those
// that are whole.
func (k *Keys) List() ([]Key, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.read(); err != nil {
		return nil, err
	}
	return slices.Clone(k.keys), k.bad
}

// Remove makes a key worthless at once, for open streams with their next
// heartbeat. Runs of its owner stay.
func (k *Keys) Remove(name string) error {
	if !keyName.MatchString(name) {
		return noSuchKey(name, nil)
	}
	err := os.Remove(k.file(name))
	if errors.Is(err, fs.ErrNotExist) {
		list, _ := k.List() // only for the names that are near
		return noSuchKey(name, list)
	}
	if err != nil {
		return core.Errorf(core.CodeStoreFailed, "the key %q cannot be removed: %w", name, err)
	}
	return nil
}

func noSuchKey(name string, list []Key) error {
	names := make([]string, len(list))
	for i, key := range list {
		names[i] = key.Name
	}
	return core.Errorf(core.CodeNotFound, "there is no key %q%s", core.Visible(name, 70, false), core.Suggest(name, names))
}

// Owner returns whose key a token is. All hashes are compared, each in the same
// time, so that how long it takes tells nothing.
func (k *Keys) Owner(token string) (owner string, ok bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.read(); err != nil {
		return "", false, err
	}
	got := []byte(hashOf(token))
	for _, key := range k.keys {
		if subtle.ConstantTimeCompare(got, []byte(key.Hash)) == 1 {
			owner, ok = key.Name, true
		}
	}
	return owner, ok, nil
}

// has reports whether there is a key of a name and hash.
func (k *Keys) has(name, hash string) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.read(); err != nil {
		return false, err
	}
	return slices.ContainsFunc(k.keys, func(key Key) bool {
		return key.Name == name && subtle.ConstantTimeCompare([]byte(key.Hash), []byte(hash)) == 1
	}), nil
}

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

func (k *Keys) file(name string) string { return filepath.Join(k.dir, name+".json") }

// read reads the folder again when it has changed.
func (k *Keys) read() error {
	entries, err := os.ReadDir(k.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return core.Errorf(core.CodeStoreFailed, "the API keys in %s cannot be read: %w", k.dir, err)
	}
	var state strings.Builder
	var names []string
	for _, entry := range entries {
		name, isKey := strings.CutSuffix(entry.Name(), ".json")
		info, err := entry.Info()
		if !isKey || !keyName.MatchString(name) || err != nil || !info.Mode().IsRegular() {
			continue // a temporary file, or one removed just now
		}
		fmt.Fprintf(&state, "%s %d %d\n", name, info.Size(), info.ModTime().UnixNano())
		names = append(names, name)
	}
	if k.state == state.String() {
		return nil
	}
	keys, bad := make([]Key, 0, len(names)), error(nil)
	for _, name := range names {
		key, err := k.load(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			bad = err
			if _, ok := errors.AsType[*fs.PathError](err); ok {
				state.WriteString("unread\n") // what changes that may leave no trace in size and time
			}
			continue
		}
		keys = append(keys, key)
	}
	k.keys, k.bad, k.state = keys, bad, state.String()
	return nil
}

func (k *Keys) load(name string) (Key, error) {
	data, err := k.open(k.file(name))
	if err != nil {
		return Key{}, core.Errorf(core.CodeStoreFailed, "the API key %q cannot be read: %w", name, err)
	}
	var key Key
	if err := json.Unmarshal(data, &key); err != nil || len(key.Hash) != 2*sha256.Size {
		return Key{}, core.Errorf(core.CodeStoreFailed, "the file of the API key %q is damaged; remove %s and make a new key", name, k.file(name))
	}
	key.Name = name // the file's name, so that nobody is two owners
	return key, nil
}
