package mcp

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// state is what a client keeps for pml between a call that was answered with
// input_required and its retry. The client could have changed it, so it counts
// only with its seal.
type state struct {
	Version   int     `json:"v"`
	Run       core.ID `json:"run,omitempty"`
	Approval  core.ID `json:"approval,omitempty"`
	Digest    string  `json:"digest,omitempty"`
	Owner     string  `json:"owner,omitempty"`
	Workspace string  `json:"workspace,omitempty"`
	// Call is the digest of the call that was made, Nonce what makes it single.
	Call    string     `json:"call"`
	Nonce   string     `json:"nonce"`
	Issued  int64      `json:"iat"` // ms
	Expires int64      `json:"exp"` // ms
	Done    api.Status `json:"done,omitempty"`
	// Held names a call of an upstream server that waits in this process.
	Held string `json:"held,omitempty"`
}

// stateVersion is the version of the format of states.
const stateVersion = 1

// stateLife bounds the life of a state whose approval never expires.
const stateLife = 24 * time.Hour

// maxState bounds the length of a state in bytes.
const maxState = 8 << 10

// states gives states out, and takes each back once.
type states struct {
	clock  core.Clock
	random io.Reader
	secret []byte

	mu    sync.Mutex
	until map[string]time.Time // of those that were used, when they expire
	sweep int                  // how many there may be before old ones are looked for
}

// sealed is a state as the client gets it.
func (s *states) sealed(st state) (string, error) {
	var nonce [16]byte
	if _, err := io.ReadFull(s.random, nonce[:]); err != nil {
		return "", core.Errorf(core.CodeInternal, "no random numbers for a state: %w", err)
	}
	st.Version, st.Nonce = stateVersion, hex.EncodeToString(nonce[:])
	raw, err := json.Marshal(st)
	if err != nil {
		return "", core.Errorf(core.CodeInternal, "cannot encode a state: %w", err)
	}
	enc := base64.RawURLEncoding
	return enc.EncodeToString(raw) + "." + enc.EncodeToString(s.seal(raw)), nil
}

func (s *states) seal(raw []byte) []byte {
	mac := hmac.New(sha256.New, s.secret)
	mac.Write([]byte("pml requestState\x00"))
	mac.Write(raw)
	return mac.Sum(nil)
}

// unsealed reads a state that a client has sent. Nothing of it counts before the
// seal was checked. Errors are core.CodePermissionDenied and name what is wrong.
func (s *states) unsealed(text string) (state, error) {
	bad := core.Errorf(core.CodePermissionDenied, "the requestState is not one that pml has given out, or it was changed; nothing was decided")
	body, seal, ok := strings.Cut(text, ".")
	if !ok || len(text) > maxState || strings.ContainsAny(text, "\r\n") { // which decoding would skip
		return state{}, bad
	}
	enc := base64.RawURLEncoding.Strict()
	raw, err := enc.DecodeString(body)
	if err != nil {
		return state{}, bad
	}
	mac, err := enc.DecodeString(seal)
	if err != nil || !hmac.Equal(mac, s.seal(raw)) {
		return state{}, bad
	}
	var st state
	if json.Unmarshal(raw, &st) != nil || st.Version != stateVersion {
		return state{}, core.Errorf(core.CodePermissionDenied, "the requestState is of another version of pml; continue the run instead")
	}
	return st, nil
}

// admitted is the state of a retry, if the retry may use it: by who made the
// call, for the same call, in time, and once.
func (s *states) admitted(text, call string, h holder) (state, error) {
	st, err := s.unsealed(text)
	if err != nil {
		return state{}, err
	}
	refuse := func(format string, args ...any) (state, error) {
		return state{}, core.Errorf(core.CodePermissionDenied, format, args...).WithRun(st.Run)
	}
	switch now := s.clock.Now(); {
	case st.Owner != h.owner || st.Workspace != h.workspace:
		return state{}, core.Errorf(core.CodePermissionDenied, "the requestState was given to another caller; nothing was decided")
	case st.Call != call:
		return refuse("the requestState belongs to another call: the tool and its arguments must be those of the call that it answers; nothing was decided")
	case now.UnixMilli() >= st.Expires:
		return refuse("the requestState has expired; nothing was decided. The run still waits: continue it to be asked again")
	case !s.use(st.Nonce, time.UnixMilli(st.Expires), now):
		return refuse("the requestState was used before; nothing more was decided. Continue the run to see how it stands")
	}
	return st, nil
}

// callDigest is what stands for a call in its state.
func callDigest(tool string, args json.RawMessage) string {
	digest, err := core.Digest(args)
	if err != nil { // what has no canonical form stands for itself
		sum := sha256.Sum256(args)
		digest = hex.EncodeToString(sum[:])
	}
	sum := sha256.Sum256([]byte(tool + "\x00" + digest))
	return hex.EncodeToString(sum[:])
}

// use reports whether it is the first use of a state.
func (s *states) use(nonce string, until, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.until[nonce]; ok {
		return false
	}
	if s.until == nil {
		s.until = map[string]time.Time{}
	}
	if len(s.until) >= max(s.sweep, 1000) {
		for old, at := range s.until {
			if !now.Before(at) {
				delete(s.until, old)
			}
		}
		s.sweep = 2 * len(s.until)
	}
	s.until[nonce] = until
	return true
}
