package launch

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/atomicfile"
)

// HashesDir is the folder, below that of the installed packages, in which Files
// keeps what it has hashed. Any of its files can be lost at any time.
const HashesDir = ".hashed"

// knownHash is what is remembered of a file that was hashed.
type knownHash struct {
	Path string `json:"path"`
	Stat string `json:"stat"`
	Hash string `json:"hash"`
}

// settled is how long a file must have rested before its stat is relied upon:
// the clocks of file systems are coarse, so that two writes shortly after one
// another can look like one.
const settled = 2 * time.Second

// HashFile returns "sha256:" and the hex SHA-256 of a file. As long as the file
// system says that the file was not touched it is not read again, by later
// processes neither. One that is touched while it is read, as by a link that is
// made to it, is read again. What is not a readable file, or is being written, is
// core.CodeServerUnreachable.
func (f *Files) HashFile(path string) (string, error) {
	var last string
	for range mostReadings {
		hash, steady, err := f.hashOnce(path)
		if err != nil {
			return "", unreadable(path, err)
		}
		if steady || hash == last {
			return hash, nil
		}
		last = hash
	}
	return "", unreadable(path, errors.New("it changes while it is read; try again"))
}

// mostReadings is how often a file is read that is touched each time.
const mostReadings = 5

// hashOnce is one reading for HashFile; steady is whether nobody has touched the file
// meanwhile.
func (f *Files) hashOnce(path string) (hash string, steady bool, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", false, err
	}
	if !info.Mode().IsRegular() {
		return "", false, errors.New("it is not a regular file")
	}
	stat := fileStat(info)
	keep := f.hashPath(path)
	var known knownHash
	if raw, err := os.ReadFile(keep); err == nil && json.Unmarshal(raw, &known) == nil &&
		known.Path == path && known.Stat == stat && isDigest(known.Hash) {
		f.used(keep)
		return known.Hash, true, nil
	}
	hash, after, err := f.read(path)
	if err != nil || after != stat {
		return hash, false, err
	}
	if age := f.o.Clock.Now().Sub(info.ModTime()); age < settled && age > -settled {
		return hash, true, nil
	}
	raw, err := json.Marshal(knownHash{Path: path, Stat: stat, Hash: hash})
	if err == nil {
		err = atomicfile.Write(keep, raw, 0o600)
	}
	if err != nil {
		f.o.Logger.Warn("cannot keep the hash of a file", "file", path, "error", err)
	}
	return hash, true, nil
}

// HashFiles returns one digest for all files of a command: that of HashFile for
// one, for several one over their names and hashes. None has none.
func (f *Files) HashFiles(files []File) (string, error) {
	h := sha256.New()
	for _, file := range files {
		hash, err := f.HashFile(file.Path)
		if err != nil || len(files) == 1 {
			return hash, err
		}
		fmt.Fprintf(h, "%q %s\n", file.Name, hash)
	}
	if len(files) == 0 {
		return "", nil
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// used notes that what is kept of a file was of use.
func (f *Files) used(keep string) {
	if err := atomicfile.Touch(keep, f.o.Clock.Now()); err != nil {
		f.o.Logger.Debug("cannot note the use of a file", "file", keep, "error", err)
	}
}

func isDigest(s string) bool {
	hexes, ok := strings.CutPrefix(s, "sha256:")
	return ok && len(hexes) == 64 && strings.Trim(hexes, "0123456789abcdef") == ""
}

// readContent hashes a file and returns its stat afterwards.
func readContent(path string) (hash, stat string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", "", err
	}
	info, err := f.Stat()
	if err != nil {
		return "", "", err
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), fileStat(info), nil
}

// fileStat is what the file system says about a file's content: it changes with
// each write.
func fileStat(info fs.FileInfo) string {
	return string(AppendInode(fmt.Appendf(nil, "%d %d ", info.Size(), info.ModTime().UnixNano()), info))
}

func (f *Files) hashPath(path string) string {
	sum := sha256.Sum256([]byte(path))
	return filepath.Join(f.o.Home, HashesDir, hex.EncodeToString(sum[:16])+".json")
}

func unreadable(path string, err error) error {
	return core.Errorf(core.CodeServerUnreachable, "cannot read %s, which a server runs: %w; correct its command, or the permissions of the file", core.Visible(path, 400, false), err)
}
