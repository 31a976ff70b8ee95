package workspace

import (
	"errors"
	"io/fs"
	"os"
)

// notSecret refuses to change a file that is one of the workspace's .env files under
// another name.
func (c *call) notSecret(p string, info fs.FileInfo) error {
	linked, err := c.linkedSecret(info)
	if err != nil || linked {
		return errors.Join(refused("%q is refused: it is another name of a .env file, or the workspace is too large to tell", p), err)
	}
	return nil
}

// linkedSecret reports whether a file is one of the workspace's .env files under
// another name. Only a file that has further names is looked at, and the
// workspace is searched for .env files once in a call. A .env outside of the
// workspace is not known.
func (c *call) linkedSecret(info fs.FileInfo) (bool, error) {
	if namesOf(info) < 2 {
		return false, nil
	}
	if !c.secretsKnown {
		err := c.walkAll(func(p string, d fs.DirEntry) error {
			if !d.Type().IsRegular() || !secret(p) {
				return nil
			}
			if other, err := d.Info(); err == nil && namesOf(other) > 1 {
				c.secrets = append(c.secrets, other)
			}
			return nil
		})
		if errors.Is(err, errEnough) {
			return true, nil // cannot be told: refused
		}
		if err != nil {
			return false, err
		}
		c.secretsKnown = true
	}
	for _, other := range c.secrets {
		if os.SameFile(other, info) {
			return true, nil
		}
	}
	return false, nil
}
