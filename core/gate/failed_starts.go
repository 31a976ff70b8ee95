package gate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/atomicfile"
)

// brokenStart is why the last start of a server failed, for processes that start none.
// It holds for the entry that was started, and until a start succeeds.
type brokenStart struct {
	Entry string     `json:"entry"` // the digest of its configuration
	At    time.Time  `json:"at"`
	Error core.Error `json:"error"`
}

// failedStarts keeps the last failed start of each server of a workspace in a file.
type failedStarts struct {
	dir       string
	workspace string
	clock     core.Clock
	log       *slog.Logger
}

func (f failedStarts) file(server string) string {
	sum := sha256.Sum256([]byte(f.workspace + "\x00" + server))
	return filepath.Join(f.dir, hex.EncodeToString(sum[:16])+".json")
}

// keep records how the start of a server has ended. Nothing depends on it but what
// lists say: a file that cannot be written is only logged.
func (f failedStarts) keep(ctx context.Context, s *server, failed error) {
	if builtin(s.name) || ctx.Err() != nil || core.CodeOf(failed) == core.CodeCancelled {
		return
	}
	err := func() error {
		if failed == nil {
			return os.Remove(f.file(s.name))
		}
		digest, err := core.DigestOf(s.entry)
		if err != nil {
			return err
		}
		raw, err := json.Marshal(brokenStart{Entry: digest, At: f.clock.Now().UTC(), Error: *s.set.clean(failed)})
		if err != nil {
			return err
		}
		return atomicfile.Write(f.file(s.name), raw, 0o600)
	}()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.log.Warn("how a server has started cannot be kept", "server", s.name, "error", err)
	}
}

// recall says of a server against which nothing else speaks why its last start
// failed, unless its process runs here.
func (f failedStarts) recall(s *server, i *api.ServerInfo) {
	if i.State != api.ServerReady || i.Health != nil && i.Health.State == "running" {
		return
	}
	var last brokenStart
	raw, err := os.ReadFile(f.file(s.name))
	if err != nil || json.Unmarshal(raw, &last) != nil {
		return
	}
	if digest, err := core.DigestOf(s.entry); err != nil || digest != last.Entry {
		return
	}
	fault(i, &last.Error)
	i.FailedAt = &last.At
	if len(i.Next) == 0 {
		i.Next = []string{"pml", "servers", "check", s.name}
	}
}
