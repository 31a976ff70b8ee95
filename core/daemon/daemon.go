// Package daemon finds, starts and stops the pml server of this user on this
// machine: where it listens, which process it is, and how an older one hands over.
//
// A server holds a lock for as long as it lives (Claim) and says in server.json
// what it is and where. Whoever looks for one reads that file and asks the
// socket: an answer is the only proof that there is a server. Starters take a
// second lock, so that of any number of them one starts a server and the others
// find it.
package daemon

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// The limits of waiting. Zero in Options means these. Each is far above what a server
// needs: nobody waits longer than until it has answered, is ready or has ended, and a
// machine with much else to do is no reason to give a server up.
const (
	// AnswerTime is how long a server may take to say what it is.
	AnswerTime = 10 * time.Second
	// StartTime is how long a new server may take until it is ready.
	StartTime = time.Minute
	// StopTime is how long a server may take to stop. It stops what it does within ten
	// seconds, and then closes its stores and ends.
	StopTime = 30 * time.Second
)

// Options are what a Daemon needs of its process.
type Options struct {
	// Home is pml's own folder, absolute.
	Home string
	// Version is that of this build: an older background server hands over.
	Version string
	// Command starts a server in the background; --ready-fd and its number are
	// appended.
	Command []string
	// Environ and Names are the environment of this process; a server gets the
	// part of it that ChildEnv keeps.
	Environ func(name string) (string, bool)
	Names   []string
	// NoStart is why no server may be started from here; empty: it may. See
	// Refusal.
	NoStart string

	AnswerTime, StartTime, StopTime time.Duration
}

// Daemon looks after the server of one home.
type Daemon struct{ o Options }

// New returns a Daemon. It does nothing yet.
func New(o Options) *Daemon {
	if o.Environ == nil {
		o.Environ = func(string) (string, bool) { return "", false }
	}
	for _, t := range []struct {
		d   *time.Duration
		def time.Duration
	}{{&o.AnswerTime, AnswerTime}, {&o.StartTime, StartTime}, {&o.StopTime, StopTime}} {
		if *t.d <= 0 {
			*t.d = t.def
		}
	}
	return &Daemon{o}
}

// Server is a server that answers.
type Server struct {
	api.ServerStatus
	// Warning is what a person should know about it; empty: nothing.
	Warning string `json:"warning,omitempty"`
}

// Refusal says why a server is not started by itself in an environment: CI and
// PML_NO_AUTOSTART forbid it. Empty: it may be.
func Refusal(environ func(string) (string, bool)) string {
	for _, name := range []string{"PML_NO_AUTOSTART", "CI"} {
		switch v, _ := environ(name); v {
		case "", "0", "false":
		default:
			return name + " is set"
		}
	}
	return ""
}

// Find returns the server of this home that answers, nil when there is none. A
// process that has the socket and does not answer is core.CodeServerUnreachable.
func (d *Daemon) Find(ctx context.Context) (*Server, error) {
	socket, err := d.socket()
	if err != nil {
		return nil, err
	}
	st, err := d.ask(ctx, socket)
	if err != nil {
		return nil, d.unanswered(ctx, socket, err)
	}
	if st == nil {
		return nil, nil
	}
	if st.Socket == "" {
		st.Socket = socket
	}
	return &Server{ServerStatus: *st}, nil
}

// ask asks the socket. A server that closes the connection is leaving, or has
// just been replaced: then its lock says when to ask again.
func (d *Daemon) ask(ctx context.Context, socket string) (*api.ServerStatus, error) {
	limited, cancel := context.WithTimeout(ctx, d.o.AnswerTime)
	defer cancel()
	for {
		st, err := ask(limited, socket)
		if err == nil || limited.Err() != nil || !hungUp(err) {
			return st, err
		}
		if gone(limited, d.o.Home) {
			return nil, nil
		}
	}
}

// unanswered names the socket whose process does not answer, and that process
// where it has said which it is.
func (d *Daemon) unanswered(ctx context.Context, socket string, err error) error {
	if ctx.Err() != nil {
		return core.Errorf(core.CodeCancelled, "stopped waiting for the pml server on the socket %s: %w", socket, context.Cause(ctx))
	}
	if errors.Is(err, fs.ErrPermission) {
		return core.Errorf(core.CodeServerUnreachable, "the socket %s cannot be used: %w; make it yours, or use another PML_HOME", socket, err)
	}
	if rec, ok := ReadRecord(d.o.Home); ok {
		return core.Errorf(core.CodeServerUnreachable, "the pml server (process %d) on the socket %s does not answer: %w; see %s, or end that process and try again",
			rec.PID, socket, err, LogFile(d.o.Home))
	}
	return core.Errorf(core.CodeServerUnreachable, "what has the socket %s does not answer as a pml server: %w; end it, or use another PML_HOME", socket, err)
}

// socket is where a server of this home would be: where the last one said that
// it is, else the usual place.
func (d *Daemon) socket() (string, error) {
	if rec, ok := ReadRecord(d.o.Home); ok && rec.Socket != "" {
		return rec.Socket, nil
	}
	return SocketPath(d.o.Home, d.o.Environ)
}

// Start returns the server of this home, and starts one in the background where
// none answers. A background server of an older pml is asked to leave first, and
// the new one takes up its runs; one that a person has started is used as it is,
// with a warning. Of any number of starters at once one starts a server.
//
// Errors: core.CodeServerUnreachable where none may be started, where the one
// that is there does not answer or speaks another protocol; whatever kept a new
// one from starting, as that said it.
func (d *Daemon) Start(ctx context.Context) (*Server, error) {
	return d.Connect(ctx, func() bool { return true })
}

// Connect is Start for who may do without a server: where none answers one is
// started if start says so, otherwise nil is returned.
func (d *Daemon) Connect(ctx context.Context, start func() bool) (*Server, error) {
	s, err := d.Find(ctx)
	if err != nil || s == nil && !start() {
		return nil, err
	}
	if s != nil && !d.replaces(s) {
		return d.accept(s)
	}
	if s == nil && d.o.NoStart != "" {
		return nil, core.Errorf(core.CodeServerUnreachable,
			"no pml server runs here, and none is started because %s; start one by hand", d.o.NoStart).WithNext("pml", "serve")
	}
	if s != nil && d.o.NoStart != "" {
		return d.accept(s)
	}
	unlock, err := d.lockStart(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	// Another starter may have been faster.
	if s, err = d.Find(ctx); err != nil {
		return nil, err
	}
	if s != nil && !d.replaces(s) {
		return d.accept(s)
	}
	if s != nil {
		if err := d.end(ctx, s); err != nil {
			return nil, err
		}
	}
	return d.spawn(ctx)
}

// replaces reports whether this pml puts its own server in the place of another.
func (d *Daemon) replaces(s *Server) bool {
	return s.Background && newer(d.o.Version, s.Version)
}

// accept checks that this pml can talk to a server.
func (d *Daemon) accept(s *Server) (*Server, error) {
	if s.Protocol != api.Protocol {
		advice := "stop it, and start it again with this pml"
		if s.Protocol > api.Protocol {
			advice = "update this pml"
		}
		return nil, core.Errorf(core.CodeServerUnreachable, "the pml server (process %d, version %s) speaks protocol %d, this pml %d; %s",
			s.PID, core.Visible(s.Version, 60, false), s.Protocol, api.Protocol, advice).WithNext("pml", "server", "status")
	}
	if newer(d.o.Version, s.Version) {
		s.Warning = "the pml server (process " + itoa(s.PID) + ") is of version " + core.Visible(s.Version, 60, false) +
			", older than this pml (" + d.o.Version + ")"
		if !s.Background {
			s.Warning += "; it was started by hand: start it again when you can"
		}
	}
	return s, nil
}

// LogFile is where a server in the background writes its log.
func LogFile(home string) string { return filepath.Join(home, "logs", "serve.log") }
