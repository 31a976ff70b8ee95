package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonrpc"
)

// Era is one of the two ways in which MCP is spoken.
type Era int

// The eras. A server that has both is spoken to in the one that its client
// speaks: what servers ask and tell is sent in other ways in each.
const (
	AnyEra Era = iota
	// Sessions is the era of the revisions up to 2025-11-25: initialize begins a
	// session.
	Sessions
	// Stateless is that of the revisions from 2026-07-28 on: server/discover says
	// what there is, and each request stands alone.
	Stateless
)

// way is how a connection finds out which revision to speak.
type way struct {
	first Era
	only  bool   // nothing but the first
	pin   string // the revision that the entry names; empty: any
}

// wayOf is the way to a server: what its entry names, else what is known of it,
// else what its client speaks. Without a client a process begins with the
// handshake, since a probe stalls or even ends many of those that are out there,
// and an address with the probe.
func (d *dialer) wayOf(l Launch) way {
	if l.Protocol != "" {
		era := Sessions
		if mcp.IsModernProtocol(l.Protocol) {
			era = Stateless
		}
		return way{first: era, only: true, pin: l.Protocol}
	}
	d.mu.Lock()
	known, ok := d.eras[eraKey(l)]
	d.mu.Unlock()
	if ok && (known.until.IsZero() || d.opts.now().Before(known.until)) {
		return way{first: known.era, only: true}
	}
	switch first := l.Era; {
	case first != AnyEra:
		return way{first: first}
	case l.URL != "":
		return way{first: Stateless}
	}
	return way{first: Sessions}
}

func eraKey(l Launch) key { return key{name: l.Name, workspace: l.Workspace, digest: l.Digest} }

// knownEra is the era that a server has, as far as is known.
type knownEra struct {
	era   Era
	until time.Time // when it is asked again; zero for never
}

// eraDoubt is for how long a server that did not answer server/discover in time
// counts as one without: it, or this machine, may only have been busy.
const eraDoubt = 5 * time.Minute

// learnEra remembers how a server could be spoken to, if it could not be in the
// era that was tried first. What has stopped to work is forgotten: the server may
// be another version.
func (d *dialer) learnEra(l Launch, w way, c *conn, err error) {
	if w.pin != "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err != nil:
		delete(d.eras, eraKey(l))
	case c.era() != w.first:
		known := knownEra{era: c.era()}
		if errors.Is(c.undiscovered, context.DeadlineExceeded) {
			known.until = d.opts.now().Add(eraDoubt)
		}
		d.eras[eraKey(l)] = known
	}
}

func (c *conn) era() Era {
	if c.modern {
		return Stateless
	}
	return Sessions
}

// undiscovered says why the result of server/discover is not that of a server
// that speaks a revision of the era which it belongs to, nil if it is.
func undiscovered(result json.RawMessage) error {
	var said struct {
		Versions []string `json:"supportedVersions"`
	}
	if json.Unmarshal(result, &said) != nil || len(said.Versions) == 0 {
		return &answerError{text: "its answer to server/discover names no revision of MCP"}
	}
	for _, v := range said.Versions {
		if mcp.IsModernProtocol(v) && mcp.IsValidProtocolVersion(v) {
			return nil
		}
	}
	return &answerError{text: "its answer to server/discover names no revision that has it: " + core.Visible(fmt.Sprint(said.Versions), 200, false)}
}

// errNoHandshake is why no session was begun where nothing else is known.
var errNoHandshake = errors.New("it does not speak a revision of MCP with server/discover")

// whyNot is what speaks against a server having the era of server/discover, by
// what it has answered; nil for nothing.
func whyNot(m *jsonrpc.Message, err error) error {
	if err != nil {
		return err
	}
	if e := m.Err(); e != nil {
		return &answerError{text: fmt.Sprintf("it answers server/discover with error %d: %s", e.Code, e.Message)}
	}
	return nil
}

// wasAnswered reports whether a handshake failed by what the server has said.
func wasAnswered(err error) bool {
	var broken *transport.Error
	var odd *answerError
	var coded *core.Error
	return !errors.As(err, &coded) && (!errors.As(err, &broken) || errors.As(err, &odd))
}

// option makes the library go this way.
func (w way) option() client.ClientOption {
	if w.first == Sessions {
		return client.WithLegacyProtocolOnly() //nolint:staticcheck // deprecated with the old protocol, which is what most servers speak
	}
	return client.WithDiscoverTimeout(discoverTimeout)
}

// pinned is an error unless the revision is the one that the entry names.
func (w way) pinned(server, protocol string) error {
	if w.pin == "" || w.pin == protocol {
		return nil
	}
	return core.Errorf(core.CodeServerUnreachable, "server %q speaks revision %s of MCP, and its entry says \"protocol\": %q; change the entry, or leave that out",
		server, core.Visible(protocol, 40, false), w.pin)
}
