//go:build !unix

package install

import (
	"os"
	"time"
)

// lockFile opens a file that others then cannot remove. Where there is no lock
// of files it is the removal that fails while somebody has it open.
func lockFile(name string) (*os.File, error) {
	var err error
	for range lockTries {
		if rmErr := os.Remove(name); rmErr == nil || os.IsNotExist(rmErr) {
			var f *os.File
			if f, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
				return f, nil
			}
		} else {
			err = rmErr
		}
		time.Sleep(lockPause)
	}
	return nil, err
}
