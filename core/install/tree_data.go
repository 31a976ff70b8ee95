package install

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Some servers keep what they remember beside their own code. Files that came
// after the installation and that are data by their ending, not code to any
// loader of node, are no part of what runs. A file that the package brought is
// compared whatever its ending, and so is everything else that is added: a
// package.json or a file without an ending can change what is run.
var dataEndings = []string{
	".jsonl", ".ndjson", ".csv", ".log", ".db", ".db-journal", ".db-wal", ".db-shm",
	".sqlite", ".sqlite3", ".sqlite-journal", ".sqlite-wal", ".sqlite-shm", ".sqlite3-journal", ".sqlite3-wal", ".sqlite3-shm",
}

func isData(f treeFile) bool {
	return f.info.Mode().IsRegular() && f.info.Mode()&0o111 == 0 && slices.Contains(dataEndings, strings.ToLower(path.Ext(f.path)))
}

// withoutData leaves the data out that was added to an installed tree. When it
// cannot be said what was installed, nothing is left out.
func (i Installed) withoutData(files []treeFile) []treeFile {
	if !slices.ContainsFunc(files, isData) {
		return files
	}
	manifest, err := os.ReadFile(filepath.Join(i.Dir, manifestFile))
	if err != nil || manifestHash(manifest) != i.TreeHash {
		return files
	}
	installed := manifestMap(manifest)
	return slices.DeleteFunc(files, func(f treeFile) bool {
		_, ok := installed[f.path]
		return !ok && isData(f)
	})
}
