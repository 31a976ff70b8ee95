package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/env"
)

// filesKept are the files that stay although pml or a person has written them for pml:
// in this folder, and unless only it is meant in each that was trusted on this machine.
func (r removal) filesKept(ctx context.Context, b app.Backend, here bool) (kept []string, err error) {
	paths, err := b.Paths(ctx)
	if err != nil {
		return nil, err
	}
	var folders []string
	if paths.Workspace != "" {
		folders = append(folders, paths.Workspace)
	}
	if !here {
		trusted, err := (env.Home{Dir: paths.Home}).TrustedWorkspaces()
		if err != nil {
			return nil, err
		}
		folders = append(folders, trusted...)
	}
	for _, dir := range folders {
		for _, base := range []string{".pml.json", "pml.lock", ".env"} {
			name := filepath.Join(dir, base)
			if _, err := os.Lstat(name); err == nil && !slices.Contains(r.Files, name) && !slices.Contains(kept, name) {
				kept = append(kept, name)
			}
		}
	}
	return kept, nil
}

// done says that it is done, and what is left in folders.
func (r removal) done(text string) func(*strings.Builder) {
	return func(w *strings.Builder) {
		w.WriteString(text + "\n")
		for _, name := range r.Kept {
			fmt.Fprintf(w, "left: %s\n", core.Visible(name, 0, false))
		}
	}
}
