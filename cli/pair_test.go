package cli_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core"
)

// fakeDevices are paired browsers in memory.
type fakeDevices struct {
	list []app.Device
	here bool
}

func (f *fakeDevices) Pair(_ context.Context, name, url string) (app.Pairing, error) {
	f.list = append(f.list, app.Device{Name: name, PairedAt: at, Until: at.Add(24 * time.Hour)})
	return app.Pairing{Name: name, URL: url + "/pair?code=abc", Until: at.Add(10 * time.Minute), Here: f.here}, nil
}

func (f *fakeDevices) Devices(context.Context) ([]app.Device, error) { return f.list, nil }

func (f *fakeDevices) RemoveDevice(_ context.Context, name string) error {
	if len(f.list) == 0 || f.list[0].Name != name {
		return core.Errorf(core.CodeNotFound, "there is no device %q", name)
	}
	f.list = nil
	return nil
}

func TestPair(t *testing.T) {
	t.Parallel()
	s := (&shell{tty: true, width: 80, env: xterm}).run("pair", "phone", "--url", "https://home.example.org").want(t, 0).
		has(t, "out", "https://home.example.org/pair?code=abc", "good once", "█", "\x1b[97;40m")
	if lines := strings.Count(s.out, "█"); lines < 20 || strings.Contains(s.out, "only this machine") {
		t.Error(s.out)
	}
	s = (&shell{devices: fakeDevices{here: true}}).run("pair", "phone", "--url", "http://127.0.0.1:1").want(t, 0).has(t, "out", "http://127.0.0.1:1/pair?code=abc\n", "only this machine")
	if strings.Contains(s.out, "█") {
		t.Error("a code in a pipe")
	}
	s.run("pair", "ls").want(t, 0).has(t, "out", "phone", "2026-03-01")
	s.run("pair", "rm", "tablet").want(t, 3).has(t, "err", "no device")
	s.run("pair", "rm", "phone", "--json").want(t, 0).has(t, "out", `"removed": "phone"`)
	s.run("pair", "ls").want(t, 0).has(t, "err", "no device is paired")
	s.run("pair").want(t, 2)
}

// A pairing that cannot be in the audit log is none; what is removed is removed.
func TestPair_Audited(t *testing.T) {
	t.Parallel()
	s := (&shell{fake: &fake{}}).run("pair", "phone", "--url", "https://home.example.org").want(t, 0)
	s.run("pair", "rm", "phone").want(t, 0)
	if got := strings.Join(s.fake.visited, "; "); got != "began the pairing of the device phone; removed the device phone" {
		t.Error(got)
	}
	full := &fake{failWith: core.Errorf(core.CodeStoreFailed, "the disk is full")}
	s = (&shell{fake: full}).run("pair", "phone", "--url", "https://home.example.org")
	if s.code == 0 || s.out != "" || len(s.devices.list) != 0 || !strings.Contains(s.err, "the disk is full") {
		t.Errorf("%d %q %q %v", s.code, s.out, s.err, s.devices.list)
	}
	s.devices.list = []app.Device{{Name: "phone"}}
	s.run("pair", "rm", "phone")
	if s.code == 0 || len(s.devices.list) != 0 || !strings.Contains(s.err, "phone is removed, but") {
		t.Errorf("%d %q %v", s.code, s.err, s.devices.list)
	}
}
