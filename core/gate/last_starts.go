package gate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/atomicfile"
	"github.com/casys-ai/pml/core/engine"
)

// lastStart is how the last start of a server has ended, for processes that start none: why
// it failed, or what a person is still asked about its tools. It holds for the entry that
// was started, and until a start leaves nothing to say.
type lastStart struct {
	Entry string          `json:"entry"` // the digest of its configuration
	At    time.Time       `json:"at"`
	Error *core.Error     `json:"error,omitempty"`
	Asks  *api.ServerNeed `json:"asks,omitempty"`
	Tools []string        `json:"tools,omitempty"` // that Asks is about
}

// lastStarts keeps the last start of each server of a workspace in a file.
type lastStarts struct {
	dir       string
	workspace string
	clock     core.Clock
	log       *slog.Logger
}

func (f lastStarts) file(server string) string {
	sum := sha256.Sum256([]byte(f.workspace + "\x00" + server))
	return filepath.Join(f.dir, hex.EncodeToString(sum[:16])+".json")
}

// ended records how the start of a server has ended, or that it was not tried because
// something is to be installed first.
func (f lastStarts) ended(ctx context.Context, s *server, r readiness, failed error) {
	installs := func(a engine.Ask) bool { return a.Type == core.ApproveDependency }
	switch {
	case failed == nil && len(r.asks) > 0 && !slices.ContainsFunc(r.asks, installs):
		return // it was not tried
	case failed != nil || len(r.asks) > 0 || !s.claimsOpen(r):
		f.keep(ctx, s, failed, lastStart{})
		return
	}
	ask, err := s.claimsAsk(r)
	if err != nil {
		return // pml reports it to whoever calls one of its tools or checks the server
	}
	last := lastStart{Asks: &api.ServerNeed{Type: ask.Type, Description: ask.Description, Context: ask.Context, Digest: ask.Digest}}
	for _, name := range slices.Sorted(maps.Keys(r.tools)) {
		if claimOpen(s, r, name) {
			last.Tools = append(last.Tools, name)
		}
	}
	f.keep(ctx, s, nil, last)
}

// keep records why a start has failed, or what it has left to ask. Nothing depends on it but
// what lists say: a file that cannot be written is only logged.
func (f lastStarts) keep(ctx context.Context, s *server, failed error, last lastStart) {
	if builtin(s.name) || ctx.Err() != nil || core.CodeOf(failed) == core.CodeCancelled {
		return
	}
	err := func() error {
		if failed == nil && last.Asks == nil {
			return os.Remove(f.file(s.name))
		}
		digest, err := core.DigestOf(s.entry)
		if err != nil {
			return err
		}
		last.Entry, last.At, last.Error = digest, f.clock.Now().UTC(), s.set.clean(failed)
		raw, err := json.Marshal(last)
		if err != nil {
			return err
		}
		return atomicfile.Write(f.file(s.name), raw, 0o600)
	}()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.log.Warn("how a server has started cannot be kept", "server", s.name, "error", err)
	}
}

// of is how the last start of a server has ended, if it was one of this very entry and
// left something to say.
func (f lastStarts) of(s *server) (last lastStart, ok bool) {
	raw, err := os.ReadFile(f.file(s.name))
	if err != nil || json.Unmarshal(raw, &last) != nil {
		return last, false
	}
	digest, err := core.DigestOf(s.entry)
	return last, err == nil && digest == last.Entry
}

// recall says of a server against which nothing else speaks why its last start failed,
// unless its process runs here; and of one that is not installed why nobody could find out
// what would be.
func (f lastStarts) recall(s *server, i *api.ServerInfo) {
	missing := len(i.Needs) == 1 && i.Needs[0].Type == core.ApproveDependency
	if i.State != api.ServerReady && !missing || i.Health != nil && i.Health.State == "running" {
		return
	}
	last, ok := f.of(s)
	if !ok || last.Error == nil || missing && last.Error.Code != core.CodeInstallFailed {
		return
	}
	i.Needs = nil
	fault(i, last.Error)
	i.FailedAt = &last.At
	if len(i.Next) == 0 {
		i.Next = []string{"pml", "servers", "check", s.name}
	}
}

// pending says of a server against which nothing else speaks what its last start has left
// to ask about its tools, as long as it would be asked now.
func (f lastStarts) pending(s *server, i *api.ServerInfo) {
	if i.State != api.ServerReady || builtin(i.Name) {
		return
	}
	last, ok := f.of(s)
	if !ok || last.Asks == nil {
		return
	}
	open := func(tool string) bool { return s.onlyByClaim(s.set.policy.Decide(s.name+":"+tool, true), tool) }
	if slices.ContainsFunc(last.Tools, open) {
		need(i, engine.Ask{Type: last.Asks.Type, Description: last.Asks.Description, Context: last.Asks.Context, Digest: last.Asks.Digest})
	}
}
