package install

import (
	"bytes"
	"strings"
	"testing"
)

// FuzzReadNPMLock: a lock that is read gives a lock that says the same when it is read
// again, and says nowhere where to fetch from.
func FuzzReadNPMLock(f *testing.F) {
	f.Add([]byte(`{"lockfileVersion": 3, "packages": {"": {"dependencies": {"a": "1"}}, "node_modules/a": {"version": "1.0.0", "integrity": "sha512-AA==", "resolved": "https://x/a.tgz", "hasInstallScript": true}}}`))
	f.Add([]byte(`{"lockfileVersion": 2, "packages": {"node_modules/a": {"version": "1", "integrity": "sha512-AA=="}, "node_modules/a/node_modules/@b/c": {"name": "d", "version": "2", "inBundle": true, "os": ["!linux"], "cpu": "x64"}}}`))
	f.Add([]byte(`{"lockfileVersion": 3, "packages": {"node_modules/../a": {"version": "1"}, "node_modules/a": {"link": true}}}`))
	f.Add([]byte(`{"lockfileVersion": 1}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		first, err := readNPMLock(raw, "a", "")
		if err != nil {
			return
		}
		if bytes.Contains(first.lock, []byte(`"resolved":`)) && !strings.Contains(string(raw), "resolved") {
			t.Errorf("%q: the lock says where to fetch from: %s", raw, first.lock)
		}
		again, err := readNPMLock(first.lock, "a", "")
		if err != nil || again.Digest != first.Digest || again.Version != first.Version {
			t.Errorf("%q: %v; %s, %s and then %s, %s", raw, err, first.Version, first.Digest, again.Version, again.Digest)
		}
	})
}
