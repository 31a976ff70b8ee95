package setup

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/env"
)

// secretBytes is the length of a machine's secret.
const secretBytes = 32

// Secret is what this home signs with what clients keep for pml. It is made on
// first use and stays; only this user can read it.
func Secret(home env.Home) ([]byte, error) {
	name := filepath.Join(home.Dir, "secret")
	for range 2 {
		raw, err := os.ReadFile(name)
		switch {
		case err == nil && len(raw) == secretBytes:
			return raw, nil
		case err == nil:
			return nil, core.Errorf(core.CodeStoreFailed, "%s is damaged; remove it, and what clients keep of approvals is asked anew", name)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, core.Errorf(core.CodeStoreFailed, "cannot read %s: %w", name, err)
		}
		if err := makeSecret(name); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, core.Errorf(core.CodeStoreFailed, "cannot write %s: %w", name, err)
		}
	}
	return nil, core.Errorf(core.CodeStoreFailed, "cannot read %s: it comes and goes", name)
}

// makeSecret makes the file as a whole: of several who do so at once one wins.
func makeSecret(name string) error {
	raw := make([]byte, secretBytes)
	if _, err := rand.Read(raw); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".new-secret-*") // 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.Write(raw)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Link(f.Name(), name)
}
