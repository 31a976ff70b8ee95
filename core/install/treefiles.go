package install

import (
	"io/fs"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/atomicfile"
)

// Below the home of the packages:
//
//	NAME/VERSION-DIGEST/   an installed tree, complete from the moment it is there
//	.staging/TIME-RANDOM/  one that is being made; garbage when its maker died
//	.resolved/             npm's locks by digest, what ranges stood for, and why a tree was not installed
//	.approved.json         what was approved on this machine
//	.used.json             who uses which tree
//	.tools/                definitions of tools by digest
//	.hashed/               hashes of files outside, by path, with their stat

// treePath is the folder of an installed tree.
func (in *Installer) treePath(name, version, digest string, scripts bool) string {
	base := strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) || strings.ContainsRune("-_.", r) {
			return r
		}
		return '_' // build metadata: the digest tells trees apart
	}, version) + "-" + shortDigest(digest, 12)
	if scripts {
		base += scriptsSuffix
	}
	return filepath.Join(in.o.Home, filepath.FromSlash(name), base)
}

// scriptsSuffix marks a tree whose install scripts ran: other files, and
// another decision.
const scriptsSuffix = "-scripts"

// shortDigest returns the first n hex digits of a digest, or "invalid".
func shortDigest(digest string, n int) string {
	hexes := strings.TrimPrefix(digest, "sha256:")
	if len(hexes) != 64 || strings.Trim(hexes, "0123456789abcdef") != "" {
		return "invalid"
	}
	return hexes[:n]
}

// writeFile replaces a file of the home as a whole.
func writeFile(file string, data []byte) error {
	return replaceFile(file, data, 0o600)
}

func replaceFile(file string, data []byte, mode fs.FileMode) error {
	if err := atomicfile.Write(file, data, mode); err != nil {
		return diskError("write "+file, err)
	}
	return nil
}

// syncDir makes a rename in a folder durable.
func syncDir(dir string) error {
	if err := atomicfile.SyncDir(dir); err != nil {
		return diskError("open "+dir, err)
	}
	return nil
}

func diskError(what string, err error) *core.Error {
	return core.Errorf(core.CodeInstallFailed, "cannot %s: %w; check the permissions and the free space there", what, err)
}
