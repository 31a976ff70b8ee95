package process

import (
	"context"
	"net"
	"net/url"
	"strings"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/daemon"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/server"
)

// devices are the paired browsers of a home.
type devices struct {
	visitors *server.Visitors
	daemon   *daemon.Daemon
}

func openDevices(o app.OpenOptions) (app.Devices, error) {
	environ := env.OS()
	home, err := ownHome(o.Home, environ)
	if err != nil {
		return nil, err
	}
	d, err := newDaemon(home, environ)
	if err != nil {
		return nil, err
	}
	return &devices{visitors: server.NewVisitors(home.Visitors(), systemClock{}), daemon: d}, nil
}

// Pair implements app.Devices.
func (d *devices) Pair(ctx context.Context, name, address string) (p app.Pairing, err error) {
	at, err := d.address(ctx, address)
	if err != nil {
		return p, err
	}
	code, until, err := d.visitors.Pair(ctx, name)
	if err != nil {
		return p, err
	}
	host := net.ParseIP(at.Hostname())
	at.Path, at.RawQuery = "/pair", url.Values{"code": {code}}.Encode()
	return app.Pairing{Name: name, URL: at.String(), Until: until, Here: at.Hostname() == "localhost" || host != nil && host.IsLoopback()}, nil
}

// address is where a browser finds the pages: as a person says, or as the server says.
func (d *devices) address(ctx context.Context, said string) (*url.URL, error) {
	if said == "" {
		st, err := d.daemon.Status(ctx)
		switch {
		case err != nil:
			return nil, err
		case st == nil || st.URL == "":
			return nil, core.Errorf(core.CodeServerUnreachable, "no server of this machine shows pages: start one with an address that the device reaches, or name the one that there is with --url; nothing was paired").
				WithNext("pml", "serve", "--listen", "HOST:PORT", "--tls-cert", "FILE", "--tls-key", "FILE")
		}
		said = st.URL
	}
	at, err := url.Parse(said)
	if err != nil || at.Scheme != "https" && at.Scheme != "http" || at.Host == "" || at.User != nil || strings.Trim(at.Path, "/") != "" || at.RawQuery != "" || at.Fragment != "" {
		return nil, core.Errorf(core.CodeInvalidArguments, "%s is no address of a server: write https://NAME or https://NAME:PORT; nothing was paired", core.Visible(said, 200, false))
	}
	if ip := net.ParseIP(at.Hostname()); ip != nil && ip.IsUnspecified() {
		return nil, core.Errorf(core.CodeInvalidArguments, "the server listens on all addresses (%s): say with --url by which the device reaches it; nothing was paired", at.Host)
	}
	return at, nil
}

// Devices implements app.Devices.
func (d *devices) Devices(context.Context) ([]app.Device, error) {
	list, err := d.visitors.Devices()
	out := make([]app.Device, len(list))
	for i, one := range list {
		out[i] = app.Device(one)
	}
	return out, err
}

// RemoveDevice implements app.Devices.
func (d *devices) RemoveDevice(ctx context.Context, name string) error {
	return d.visitors.Remove(ctx, name)
}
