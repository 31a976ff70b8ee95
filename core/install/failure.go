package install

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/casys-ai/pml/core"
)

// Failures keeps why trees were not installed, by their digest.
type Failures struct {
	dir   string
	clock core.Clock
}

// Failure is why npm could not install a tree that a person had approved.
type Failure struct {
	Code    core.Code `json:"code"`
	Message string    `json:"message"`
	// Final is set when npm would fail with this tree again, whoever approves it:
	// the registry lacks a part of it.
	Final bool      `json:"final,omitempty"`
	At    time.Time `json:"at"`
}

// errFinal is wrapped by errors of a tree that cannot be installed as it is.
var errFinal = errors.New("the tree cannot be installed as it is")

// Record keeps why a tree was not installed, for the next question about
// it, in whatever process. message is what a person is shown: the caller has
// taken secrets out of it. A successful Install, and Latest, forget it.
func (f *Failures) Record(digest string, err error, message string) error {
	raw, encodeErr := json.Marshal(Failure{
		Code: core.CodeOf(err), Message: message, Final: errors.Is(err, errFinal), At: f.clock.Now().UTC(),
	})
	if encodeErr != nil {
		return core.Errorf(core.CodeInternal, "cannot encode a failure: %w", encodeErr)
	}
	return writeFile(f.path(digest), raw)
}

// Last returns why the tree of a digest was not installed; nil when
// nobody has tried, or it is too long ago to mean anything.
func (f *Failures) Last(digest string) *Failure {
	raw, err := os.ReadFile(f.path(digest))
	var last Failure
	if err != nil || json.Unmarshal(raw, &last) != nil || f.clock.Now().Sub(last.At) > rememberResolved {
		return nil
	}
	return &last
}

func (f *Failures) forget(digest string) error {
	if err := os.Remove(f.path(digest)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return diskError("remove "+f.path(digest), err)
	}
	return nil
}

func (f *Failures) path(digest string) string {
	return filepath.Join(f.dir, "failed-"+shortDigest(digest, 64)+".json")
}
