package postgres_test

import (
	"bytes"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
)

// proxy stands between a store and the database and cuts connections.
type proxy struct {
	t      testing.TB
	listen net.Listener
	target string

	mu    sync.Mutex
	down  bool
	conns map[net.Conn]bool
	// onRequest and onAnswer cut the connection that sends next, before what it
	// sent is passed on.
	onRequest, onAnswer bool
	cuts                int
	// held stops each connection that sends this, until it is gone.
	held    string
	holding chan struct{} // signalled when one is held
	resume  chan struct{} // closed when nothing is held any more
}

// through returns the address of a database behind a proxy.
func through(t testing.TB, address string) (*proxy, string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, listen: l, target: u.Host, conns: map[net.Conn]bool{}}
	t.Cleanup(func() {
		_ = l.Close()
		p.set(func() { p.down = true })
	})
	go p.serve()
	u.Host = l.Addr().String()
	q := u.Query()
	q.Set("sslmode", "disable")
	u.RawQuery = q.Encode()
	return p, u.String()
}

func (p *proxy) serve() {
	for {
		client, err := p.listen.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		p.mu.Lock()
		if err != nil || p.down {
			_ = client.Close()
			if err == nil {
				_ = server.Close()
			}
			p.mu.Unlock()
			continue
		}
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		var still atomic.Pointer[chan struct{}]
		go p.pipe(client, server, &p.onRequest, &still)
		go p.pipe(server, client, &p.onAnswer, &still)
	}
}

// pipe passes on what is sent. Nothing gets through a connection that is held,
// not even its end: still is what both directions wait for.
func (p *proxy) pipe(from, to net.Conn, cut *bool, still *atomic.Pointer[chan struct{}]) {
	defer from.Close()
	defer to.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if wait := still.Load(); wait != nil {
			<-*wait
		}
		if err != nil {
			return
		}
		p.mu.Lock()
		now := *cut
		if now {
			*cut = false
			p.cuts++
		}
		p.mu.Unlock()
		if now {
			return
		}
		if cut == &p.onRequest {
			p.hold(buf[:n], still)
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// hold returns when what is sent may be passed on.
func (p *proxy) hold(sent []byte, still *atomic.Pointer[chan struct{}]) {
	p.mu.Lock()
	held, resume := p.held != "" && bytes.Contains(sent, []byte(p.held)), p.resume
	p.mu.Unlock()
	if !held {
		return
	}
	still.Store(&resume)
	select {
	case p.holding <- struct{}{}:
	default:
	}
	<-resume
}

// holdBack holds each connection that sends a text, until release is called.
func (p *proxy) holdBack(text string) (holding <-chan struct{}, release func()) {
	resume, released := make(chan struct{}), sync.Once{}
	p.set(func() { p.held, p.holding, p.resume = text, make(chan struct{}, 1), resume })
	release = func() {
		released.Do(func() {
			p.set(func() { p.held = "" })
			close(resume)
		})
	}
	p.t.Cleanup(release)
	return p.holding, release
}

// set changes the proxy; a proxy that is down has no connections.
func (p *proxy) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	if p.down {
		for c := range p.conns {
			_ = c.Close()
		}
		clear(p.conns)
	}
}

// happened returns how many connections were cut.
func (p *proxy) happened() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}
