package route_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// following follows the events of both halves until stop, and gives what came.
func following(t *testing.T, b *both, since api.Since, do func(got func() []string)) []string {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var got []string
	ended := make(chan error, 1)
	go func() {
		ended <- b.Events(ctx, "", since, true, func(e core.Event) error {
			got = append(got, fmt.Sprintf("%s:%d", e.Side, e.Seq))
			return nil
		})
	}()
	do(func() []string {
		synctest.Wait()
		return slices.Clone(got)
	})
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	synctest.Wait()
	return got
}

// TestEvents_ServerStartedLater: who follows before there is a server sees the
// events of one that is started then.
func TestEvents_ServerStartedLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBoth(t, false, true)
		b.local.emit(1)
		got := following(t, b, api.Since{}, func(got func() []string) {
			got()
			b.remote.emit(2)
			b.noServer.Store(false)
			time.Sleep(time.Minute)
			got()
			b.local.emit(3)
			got()
			b.remote.emit(4)
			got()
		})
		if strings.Join(got, " ") != "client:1 server:1 client:2 server:2" || len(b.warnings) != 0 {
			t.Errorf("%v, warnings %q", got, b.warnings)
		}
	})
}

// TestEvents_ServerAwayAndBack: however long and often a server is away, each of
// its events comes once, and both are said once.
func TestEvents_ServerAwayAndBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBoth(t, false, false)
		b.remote.emit(1)
		got := following(t, b, api.Since{}, func(got func() []string) {
			for range 2 {
				got()
				b.remote.fall(errDown)
				time.Sleep(time.Hour)
				b.local.emit(1)
				got()
				b.remote.fall(nil)
				b.remote.emit(2)
				time.Sleep(time.Minute)
				b.remote.emit(3)
			}
			got()
		})
		if strings.Join(got, " ") != "server:1 client:1 server:2 server:3 client:2 server:4 server:5" {
			t.Errorf("%v", got)
		}
		if len(b.warnings) != 4 || !strings.Contains(b.warnings[0], "is away") || !strings.Contains(b.warnings[1], "is back") ||
			!strings.Contains(b.warnings[2], "is away") || !strings.Contains(b.warnings[3], "is back") {
			t.Errorf("warnings %q", b.warnings)
		}
	})
}

// TestEvents_ServerNeverStays: a server that breaks off at once each time is not
// said to be back.
func TestEvents_ServerNeverStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBoth(t, false, false)
		following(t, b, api.Since{}, func(got func() []string) {
			for range 20 {
				time.Sleep(time.Second)
				got()
				b.remote.fall(errDown)
				b.remote.fall(nil)
			}
		})
		if len(b.warnings) != 1 {
			t.Errorf("warnings %q", b.warnings)
		}
	})
}

// TestEvents_Since: a number of each half.
func TestEvents_Since(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		since    api.Since
		noServer bool
		want     string
	}{
		{"Both", api.Since{Client: 1, Server: 2}, false, "client:2 server:3 client:3"},
		{"One", api.Since{Server: 2}, false, "client:1 client:2 server:3 client:3"},
		{"Only", api.Since{Any: 2}, true, "client:3"},
		{"OnlyBySide", api.Since{Client: 2}, true, "client:3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBoth(t, false, tt.noServer)
			for i := range 3 {
				b.local.emit(2 * i)
				b.remote.emit(2*i - 1)
			}
			var got []string
			err := b.Events(t.Context(), "", tt.since, false, func(e core.Event) error {
				got = append(got, fmt.Sprintf("%s:%d", e.Side, e.Seq))
				return nil
			})
			if err != nil || strings.Join(got, " ") != tt.want {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
	b := newBoth(t, false, false)
	err := b.Events(t.Context(), "", api.Since{Any: 7}, false, nil)
	if e := core.AsError(err); e.Code != core.CodeInvalidArguments || strings.Join(e.Next, " ") != "pml events --since client:7" {
		t.Error(err, e.Next)
	}
}

// TestNamed_Refused: a server that a person has named and that is not to be had
// like this is an error of the whole; one that is only away is not.
func TestNamed_Refused(t *testing.T) {
	t.Parallel()
	for code, absent := range map[core.Code]bool{
		core.CodeAuth: false, core.CodeInvalidConfig: false, core.CodeServerUnreachable: true, core.CodeStoreBusy: true,
	} {
		b := newBoth(t, true, false)
		b.local.add(core.Run{ID: idLocal})
		b.remote.down = core.Errorf(code, "no")
		_, err1 := b.Workflows(t.Context(), nil, 0, "")
		_, err2 := b.Approvals(t.Context(), false)
		_, err3 := b.Prune(t.Context(), after(1))
		_, _, err4 := b.Tools(t.Context())
		_, _, err5 := b.Resolve(t.Context(), "@latest")
		err6 := b.Events(t.Context(), "", api.Since{}, false, func(core.Event) error { return nil })
		for i, err := range []error{err1, err2, err3, err4, err5, err6} {
			if absent && err != nil || !absent && core.CodeOf(err) != code {
				t.Errorf("%s, %d: %v", code, i, err)
			}
		}
	}
}

// TestLink_EveryFailure: while all events are followed, each try that fails is
// told, the first one and that of a server that refuses the key, too.
func TestLink_EveryFailure(t *testing.T) {
	t.Parallel()
	for _, code := range []core.Code{core.CodeServerUnreachable, core.CodeAuth} {
		synctest.Test(t, func(t *testing.T) {
			b := newWatching(t)
			b.remote.down = core.Errorf(code, "no")
			following(t, b, api.Since{}, func(got func() []string) {
				b.local.emit(1)
				time.Sleep(5 * time.Second)
				if list := got(); len(list) != 1 {
					t.Errorf("%s: events %v", code, list)
				}
			})
			if len(b.links) < 2 || core.CodeOf(b.links[0]) != code {
				t.Errorf("%s: told %v", code, b.links)
			}
		})
	}
}

// TestPartial: who looks on sees what is here, whatever is wrong with a named
// server.
func TestPartial(t *testing.T) {
	t.Parallel()
	b := newWatching(t)
	b.local.add(core.Run{ID: idLocal})
	b.remote.down = core.Errorf(core.CodeAuth, "the key is refused")
	page, err := b.Workflows(t.Context(), nil, 0, "")
	if err != nil || len(page.Items) != 1 || len(page.Warnings) != 1 || !strings.Contains(page.Warnings[0], "the key is refused") {
		t.Errorf("%+v, %v", page, err)
	}
	if _, err := b.Approvals(t.Context(), false); err != nil {
		t.Error(err)
	}
	if err := b.Events(t.Context(), "", api.Since{}, false, func(core.Event) error { return nil }); err != nil {
		t.Error(err)
	}
}
