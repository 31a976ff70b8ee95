package install

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/casys-ai/pml/core"
)

// LockVersion is the version of pml.lock that this package writes.
const LockVersion = 1

// Lock is a pml.lock: what the servers of a workspace are pinned to. It pins
// and never approves.
type Lock struct {
	Version int                  `json:"version"`
	Servers map[string]LockEntry `json:"servers"`
}

// LockEntry pins one server. Package and what follows from it are empty for a
// server that is not installed from npm.
type LockEntry struct {
	Package  string    `json:"package,omitempty"`
	Range    string    `json:"range,omitempty"`
	Version  string    `json:"version,omitempty"`
	Digest   string    `json:"digest,omitempty"`
	Packages []Package `json:"packages,omitempty"`
	// NPM is npm's own lock of the tree, so that others get the same one.
	NPM           json.RawMessage `json:"npm,omitempty"`
	CommandDigest string          `json:"command_digest,omitempty"`
	// FileDigest is the hash of the program or script; see launch.Files.
	FileDigest string `json:"file_digest,omitempty"`
	// Tools holds the ToolDigest of each tool that was approved; nil means that
	// no list was recorded yet, empty that the server had none.
	Tools map[string]string `json:"tools,omitzero"`
	// ReadOnly are the names of the tools of which a person has accepted that they
	// only read, as their server says.
	ReadOnly []string `json:"readonly,omitempty"`
}

// ToolDigest is the digest of all that a tool says about itself. A server that
// changes any of it after it was approved is noticed by it. A tool without Rest
// has the digest that it had before there was one.
func ToolDigest(t core.Tool) string {
	t.Server = ""
	whole := struct {
		core.Tool
		Rest json.RawMessage `json:"rest,omitempty"`
	}{t, t.Rest}
	if digest, err := core.DigestOf(whole); err == nil {
		return digest
	}
	// A schema that is no JSON is compared as it stands.
	text := fmt.Appendf(nil, "%q %q %q %q %q", t.Name, t.Title, t.Description, t.InputSchema, t.OutputSchema)
	if len(t.Rest) > 0 {
		text = fmt.Appendf(text, " %q", t.Rest)
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}
