package process

import (
	"sync"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/server"
	"github.com/casys-ai/pml/core/service"
)

// ownHalf is this machine's own half within a server, for the pages of paired devices.
type ownHalf struct {
	mu     sync.Mutex
	half   *service.Service
	closed bool
}

// ownHalf is what a device may see of this machine's own half. It is opened for the first
// one who asks.
func (s *serving) ownHalf(scope api.Scope) (server.Backend, error) {
	s.own.mu.Lock()
	defer s.own.mu.Unlock()
	if s.own.closed {
		return nil, core.Errorf(core.CodeCancelled, "the server is about to stop")
	}
	if s.own.half == nil {
		ws, err := s.workspace()
		if err != nil {
			return nil, err
		}
		half, err := openHalf(app.OpenOptions{Home: s.o.Home}, &connector{home: s.home, workspace: ws, environ: env.OS(), via: core.ViaPage, noStart: true}, s.log)
		if err != nil {
			return nil, err
		}
		s.own.half = half
	}
	return s.own.half.In(scope)
}

// Close ends what it runs.
func (o *ownHalf) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed = true; o.half == nil {
		return nil
	}
	return o.half.Close()
}
