package env

import (
	"fmt"
	"os"
	"strings"
)

// Stamp tells whether files are those of before.
type Stamp string

// StampOf is the stamp of files as they are now; one that is not there counts, too.
func StampOf(names ...string) Stamp {
	var b strings.Builder
	for _, name := range names {
		if fi, err := os.Stat(name); err == nil {
			fmt.Fprintf(&b, "%d %d %s;", fi.ModTime().UnixNano(), fi.Size(), fi.Mode())
		} else {
			b.WriteString("-;")
		}
	}
	return Stamp(b.String())
}
