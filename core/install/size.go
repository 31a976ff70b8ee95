package install

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core/launch"
)

// The sizes of packages stand in the documents of the registry, which npm has
// just read and left in its own cache. They are looked up there: asking the
// registry again would cost as much as the resolution. Whatever is not found is
// left out; a size is for a person to look at, nothing depends on it.

// maxDocument bounds a document of the registry that is read for a size.
const maxDocument = 64 << 20

// unpackedSize adds up the sizes of the packages that npm would install here.
// fetched are the addresses that npm named; without them the documents are
// looked for under those of the registry that npm uses.
func (m *npm) unpackedSize(packages []Package, fetched []string) int64 {
	cache := m.cache()
	if cache == "" {
		return 0
	}
	at := map[string]string{}
	for _, address := range fetched {
		if u, err := url.Parse(address); err == nil {
			at[documentName(u.Path)] = address
		}
	}
	registry, ok := launch.Variable(m.env, "npm_config_registry")
	if !ok {
		registry = "https://registry.npmjs.org"
	}
	var sum int64
	for _, p := range packages {
		if p.Elsewhere || p.Integrity == "bundled" {
			continue
		}
		name := p.Name
		if _, real, alias := strings.Cut(name, ">"); alias {
			name = real
		}
		address := at[name]
		if address == "" {
			address = strings.TrimSuffix(registry, "/") + "/" + strings.Replace(name, "/", "%2f", 1)
		}
		sum += packageSize(readCached(cache, address), p)
	}
	return sum
}

// documentName is the package that a document of the registry is about, by the
// last parts of its path.
func documentName(p string) string {
	name := path.Base(p)
	if scope := path.Base(path.Dir(p)); strings.HasPrefix(scope, "@") {
		name = scope + "/" + name
	}
	return name
}

// cache is the folder of npm's cache, as far as the environment says where.
func (m *npm) cache() string {
	for _, name := range []string{"npm_config_cache", "NPM_CONFIG_CACHE"} {
		if dir, ok := launch.Variable(m.env, name); ok && dir != "" {
			return filepath.Join(dir, "_cacache")
		}
	}
	home, below := "HOME", ".npm"
	if runtime.GOOS == "windows" {
		home, below = "LOCALAPPDATA", "npm-cache"
	}
	if dir, ok := launch.Variable(m.env, home); ok && dir != "" {
		return filepath.Join(dir, below, "_cacache")
	}
	return ""
}

// readCached reads what npm's cache has of an address; nil when it has nothing.
// A bucket of the index has a line for each writing, the last one counts.
func readCached(cache, address string) []byte {
	key := "make-fetch-happen:request-cache:" + address
	sum := sha256.Sum256([]byte(key))
	hexes := hex.EncodeToString(sum[:])
	index, err := os.ReadFile(filepath.Join(cache, "index-v5", hexes[:2], hexes[2:4], hexes[4:]))
	if err != nil {
		return nil
	}
	for _, line := range slices.Backward(bytes.Split(index, []byte("\n"))) {
		_, entry, _ := bytes.Cut(line, []byte("\t"))
		var e struct {
			Key       string `json:"key"`
			Integrity string `json:"integrity"`
			Size      int64  `json:"size"`
		}
		if json.Unmarshal(entry, &e) != nil || e.Key != key {
			continue
		}
		algorithm, encoded, _ := strings.Cut(e.Integrity, "-")
		raw, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil || len(raw) < 20 || e.Size > maxDocument || !filepath.IsLocal(algorithm) {
			return nil
		}
		content := hex.EncodeToString(raw)
		document, err := os.ReadFile(filepath.Join(cache, "content-v2", algorithm, content[:2], content[2:4], content[4:]))
		if err != nil {
			return nil
		}
		return document
	}
	return nil
}

// packageSize finds the unpacked size of one version in a package's document,
// whose other versions can be megabytes that are not worth reading. What stands
// there must have the integrity of the package.
func packageSize(document []byte, p Package) int64 {
	version, err := json.Marshal(p.Version)
	if err != nil {
		return 0
	}
	for {
		at := bytes.Index(document, version)
		if at < 0 {
			return 0
		}
		document = document[at+len(version):]
		rest, ok := bytes.CutPrefix(bytes.TrimLeft(document, " \t\r\n"), []byte(":"))
		rest = bytes.TrimLeft(rest, " \t\r\n")
		if !ok || !bytes.HasPrefix(rest, []byte("{")) {
			continue
		}
		var v struct {
			Dist struct {
				Integrity    string `json:"integrity"`
				UnpackedSize int64  `json:"unpackedSize"`
			} `json:"dist"`
		}
		if json.NewDecoder(bytes.NewReader(rest)).Decode(&v) == nil && v.Dist.Integrity == p.Integrity {
			return max(0, v.Dist.UnpackedSize)
		}
	}
}

// What node calls this platform.
var (
	nodeOS  = cmp.Or(map[string]string{"windows": "win32", "illumos": "sunos", "solaris": "sunos"}[runtime.GOOS], runtime.GOOS)
	nodeCPU = cmp.Or(map[string]string{"amd64": "x64", "386": "ia32", "ppc64le": "ppc64", "mipsle": "mipsel", "loong64": "loong64"}[runtime.GOARCH], runtime.GOARCH)
)

// platformFits reports whether a list of a package's platforms has ours. A name
// may be alone, and excluded with "!".
func platformFits(raw json.RawMessage, ours string) bool {
	var list []string
	if json.Unmarshal(raw, &list) != nil {
		var one string
		if json.Unmarshal(raw, &one) != nil {
			return true
		}
		list = []string{one}
	}
	fits, positive := false, false
	for _, name := range list {
		if excluded, ok := strings.CutPrefix(name, "!"); ok {
			if excluded == ours {
				return false
			}
			continue
		}
		positive = true
		fits = fits || name == ours || name == "any"
	}
	return fits || !positive
}
