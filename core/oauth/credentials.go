package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/atomicfile"
)

// Below the folder of credentials, by the hash of the server's URL:
//
//	HASH.json       what is kept of the server
//	HASH.flow.json  a flow that was begun
//	HASH.lock       held while one of them is changed; never removed
//	HASH.heard      locked by the process that listens for the flow's callback

const (
	credentialsVersion = 1
	lockTime           = time.Minute
	lockPause          = 20 * time.Millisecond
)

// credentials are what is kept of one server. Without tokens they hold a
// registration that no consent has followed yet.
type credentials struct {
	Version       int           `json:"version"`
	Server        string        `json:"server"` // its canonical URL
	Issuer        string        `json:"issuer"`
	TokenEndpoint string        `json:"token_endpoint"`
	Resource      string        `json:"resource"`
	Client        *registration `json:"client,omitempty"`
	// Grant names the consent that the tokens come from; a refresh keeps it.
	Grant        string    `json:"grant,omitempty"`
	AccessToken  string    `json:"access_token,omitempty"`
	RefreshToken string    `json:"refresh_token,omitempty"`
	Obtained     time.Time `json:"obtained,omitzero"`
	Expiry       time.Time `json:"expiry,omitzero"`  // of the access token; zero: not known
	Scopes       []string  `json:"scopes,omitempty"` // that were asked for
	Granted      string    `json:"granted,omitempty"`
	// AfterRejection is set when the access token replaced one that the server
	// had refused before its time.
	AfterRejection bool `json:"after_rejection,omitempty"`
	// Unusable says why the tokens are of no use any more.
	Unusable string `json:"unusable,omitempty"`
}

func (k *credentials) usable() bool { return k != nil && k.AccessToken != "" && k.Unusable == "" }

func (k *credentials) expired(now time.Time) bool {
	return !k.Expiry.IsZero() && !now.Before(k.Expiry)
}

// due reports whether the access token is to be replaced: a minute before it
// expires, or halfway when it does not live that long.
func (k *credentials) due(now time.Time) bool {
	ahead := min(refreshAhead, k.Expiry.Sub(k.Obtained)/2)
	return !k.Expiry.IsZero() && !now.Before(k.Expiry.Add(-ahead))
}

// covers reports whether the tokens were asked for, or given, with some scopes.
func (k *credentials) covers(want string) bool {
	return includes(scopes(k.Scopes, strings.Fields(k.Granted)), scopes(strings.Fields(want)))
}

func (k *credentials) header() string { return "Bearer " + k.AccessToken }

// secrets are the values that must not be shown, by kind.
func (k *credentials) secrets() map[string]string {
	out := map[string]string{"access token": k.AccessToken, "refresh token": k.RefreshToken}
	if k.Client != nil {
		out["client secret"] = k.Client.Secret
	}
	return out
}

func (c *Client) credentialsFile(r resource) string {
	return filepath.Join(c.o.Dir, r.key+".json")
}
func (c *Client) flowFile(r resource) string { return filepath.Join(c.o.Dir, r.key+flowSuffix) }

const flowSuffix = ".flow.json"

// load reads what is kept of a server; nil when there is nothing. A file that
// is damaged is treated as missing: the server is connected again.
func (c *Client) load(r resource) (*credentials, error) {
	var k credentials
	ok, err := c.read(c.credentialsFile(r), &k)
	if err != nil || !ok || k.Server != r.id {
		return nil, err
	}
	c.remember(&k)
	return &k, nil
}

// keptFile is a file of credentials as it was read.
type keptFile struct {
	info os.FileInfo
	k    *credentials // never changed
}

// is reports whether the file is still the one that was read.
func (f keptFile) is(info os.FileInfo) bool {
	return f.info != nil && os.SameFile(f.info, info) && f.info.ModTime().Equal(info.ModTime()) && f.info.Size() == info.Size() && f.info.Mode() == info.Mode()
}

// kept is load without reading the file again while it is the same. What it
// returns must not be changed.
func (c *Client) kept(r resource) (*credentials, error) {
	info, err := os.Stat(c.credentialsFile(r))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // as load says that there is nothing
	}
	if err == nil {
		c.mu.Lock()
		f := c.files[r.key]
		c.mu.Unlock()
		if f.is(info) {
			return f.k, nil
		}
	}
	k, failed := c.load(r)
	if err != nil || failed != nil || k == nil {
		return k, failed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.files, r.key)
	if c.o.Clock.Now().Sub(info.ModTime()) > settled {
		c.files[r.key] = keptFile{info, k}
	}
	return k, nil
}

// read decodes a file of this package. A file that others can read, or of a
// newer version, is refused.
func (c *Client) read(file string, into any) (bool, error) {
	data, err := readPrivate(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var v struct {
		Version int `json:"version"`
	}
	if json.Unmarshal(data, &v) != nil || v.Version < 1 {
		c.o.Logger.Warn("a file of credentials is damaged and not used", "file", file)
		return false, nil
	}
	if v.Version > credentialsVersion {
		return false, core.Errorf(core.CodeStoreNewer, "%s was written by a newer pml; update this one", file)
	}
	if json.Unmarshal(data, into) != nil {
		c.o.Logger.Warn("a file of credentials is damaged and not used", "file", file)
		return false, nil
	}
	return true, nil
}

func readPrivate(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		return nil, diskError("read "+file, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, diskError("read "+file, err)
	}
	// Windows has no such modes; there the folder of the user protects it.
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, core.Errorf(core.CodeStoreFailed,
			"%s can be read by others (mode %#o), so the tokens in it are not used; run chmod 600 on it, or connect the server again once it is removed",
			file, info.Mode().Perm()).WithNext("chmod", "600", file)
	}
	if info.Size() > maxBody {
		return nil, core.Errorf(core.CodeStoreFailed, "%s is longer than any file of credentials; remove it", file)
	}
	data := make([]byte, info.Size())
	if _, err := f.ReadAt(data, 0); err != nil && len(data) > 0 {
		return nil, diskError("read "+file, err)
	}
	return data, nil
}

// locked does something while no other process, and no other goroutine, changes
// what is kept of a server.
func (c *Client) locked(ctx context.Context, r resource, do func() error) error {
	if err := os.MkdirAll(c.o.Dir, 0o700); err != nil {
		return diskError("make "+c.o.Dir, err)
	}
	file := filepath.Join(c.o.Dir, r.key+".lock")
	l := flock.New(file, flock.SetPermissions(0o600))
	if _, err := l.TryLockContext(ctx, lockPause); err != nil {
		if ctx.Err() != nil {
			return stopped(ctx, "wait for another pml that connects "+r.id)
		}
		return diskError("lock "+file, err)
	}
	defer l.Close()
	return do()
}

// draft is a file that is about to be replaced. It is made before what goes
// into it is asked for, so that little can fail afterwards.
type draft struct {
	file string
	d    *atomicfile.Draft
}

func (c *Client) draft(file string) (*draft, error) {
	d, err := atomicfile.Create(file)
	if err != nil {
		return nil, diskError("write "+file, err)
	}
	return &draft{file: file, d: d}, nil
}

// drop removes a draft that was not committed.
func (d *draft) drop() { d.d.Discard() }

// commit replaces the file as a whole.
func (d *draft) commit(v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		err = d.d.Commit(append(data, '\n'), 0o600)
	}
	if err != nil {
		return diskError("write "+d.file, err)
	}
	return nil
}

// write replaces a file at once.
func (c *Client) write(file string, v any) error {
	d, err := c.draft(file)
	if err != nil {
		return err
	}
	defer d.drop()
	return d.commit(v)
}

func (c *Client) remove(file string) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return diskError("remove "+file, err)
	}
	// A removal that is lost with the power means that it is done again.
	if err := atomicfile.SyncDir(c.o.Dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return diskError("open "+c.o.Dir, err)
	}
	return nil
}

func diskError(what string, err error) *core.Error {
	return core.Errorf(core.CodeStoreFailed, "cannot %s: %w; check the permissions and the free space there", what, err)
}

// stopped is the error of something that a context ended.
func stopped(ctx context.Context, what string) *core.Error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return core.Errorf(core.CodeTimeout, "there was no time left to %s: %w", what, ctx.Err())
	}
	return core.Errorf(core.CodeCancelled, "told to stop, did not %s: %w", what, ctx.Err())
}

// settled is how old a folder's time of change must be before it tells one
// state from the next: file systems count in ticks.
const settled = 2 * time.Second

// Secrets returns all tokens and client secrets that are kept, by a name for
// each, for a Redactor, and those that this process has used before: a token
// that was replaced may still be good. Files are read when the folder has
// changed.
func (c *Client) Secrets() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	info, err := os.Stat(c.o.Dir)
	if err == nil && (c.listed.IsZero() || !c.listed.Equal(info.ModTime())) {
		c.list()
		c.listed = time.Time{}
		if c.o.Clock.Now().Sub(info.ModTime()) > settled {
			c.listed = info.ModTime()
		}
	}
	out := make(map[string]string, len(c.seen))
	for value, name := range c.seen {
		// Two values of one name are told apart by nothing that says more of them.
		for out[name] != "" {
			name += "'"
		}
		out[name] = value
	}
	return out
}

// list reads all files; c.mu is held.
func (c *Client) list() {
	entries, err := os.ReadDir(c.o.Dir)
	if err != nil {
		c.o.Logger.Warn("cannot read the folder of credentials", "dir", c.o.Dir, "err", err)
		return
	}
	for _, e := range entries {
		name := e.Name()
		if filepath.Ext(name) != ".json" || strings.HasPrefix(name, ".") || strings.HasSuffix(name, flowSuffix) {
			continue
		}
		// Modes do not matter here: what others can read must not be shown either.
		data, err := os.ReadFile(filepath.Join(c.o.Dir, name))
		var k credentials
		if err == nil && json.Unmarshal(data, &k) == nil {
			c.note(&k)
		}
	}
}

// remember adds what is to be redacted.
func (c *Client) remember(k *credentials) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.note(k)
}

func (c *Client) note(k *credentials) {
	for kind, value := range k.secrets() {
		if value != "" {
			c.seen[value] = "oauth " + kind + " of " + k.Server
		}
	}
}
