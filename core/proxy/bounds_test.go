package proxy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/proxy"
)

// endless is a half whose server "a" has one more page each time.
type endless struct {
	*half
	page  func(n int64) string
	pages atomic.Int64
}

func (e *endless) ForwardExposed(ctx context.Context, peer *api.Peer, server, method string, params json.RawMessage) (json.RawMessage, error) {
	if server == "a" {
		return json.RawMessage(e.page(e.pages.Add(1))), nil
	}
	return e.half.ForwardExposed(ctx, peer, server, method, params)
}

// A list that never ends is cut, whatever fills its pages, and keeps nothing of
// another server out.
func TestForward_Endless(t *testing.T) {
	t.Parallel()
	mib := strings.Repeat("x", 1<<20)
	for name, page := range map[string]func(int64) string{
		"big items": func(n int64) string {
			return fmt.Sprintf(`{"resources":[{"uri":"a://%d","name":"%s"}],"nextCursor":"%d"}`, n, mib, n)
		},
		"big cursors": func(n int64) string { return fmt.Sprintf(`{"resources":[],"nextCursor":"%d%s"}`, n, mib) },
		"tiny items": func(n int64) string {
			return fmt.Sprintf(`{"resources":[%s1],"nextCursor":"%d"}`, strings.Repeat("1,", 1<<15), n)
		},
		"big page": func(int64) string {
			return `{"resources":[{"uri":"a://1"},"` + strings.Repeat(mib, 5) + `",{"uri":"a://2"}]}`
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := &endless{half: two(), page: page}
			g := proxy.New(proxy.Options{Half: e})
			defer g.Close()
			raw, _, err := g.Forward(t.Context(), nil, "resources/list", json.RawMessage(`{}`))
			if err != nil || len(raw) > 5<<20 || e.pages.Load() > 10 || !strings.Contains(string(raw), "b://1") {
				t.Errorf("%d bytes of %d pages, %v", len(raw), e.pages.Load(), err)
			}
			first := strings.Contains(string(raw), `"a://1"`)
			if want := name == "big items" || name == "big page"; first != want {
				t.Errorf("its first item is there: %v", first)
			}
		})
	}
}

// The lists of many servers have a bound, too.
func TestForward_EndlessAll(t *testing.T) {
	t.Parallel()
	const servers, each = 6, 60_000 // of which five are too many
	var list []api.Exposed
	for i := range servers {
		s := server(fmt.Sprintf("s%d", i))
		s.Resources = true
		list = append(list, s)
	}
	h := newHalf(list...)
	for i := range servers {
		h.answers[fmt.Sprintf("s%d resources/list", i)] = `{"resources":[` + strings.Repeat("1,", each-1) + `1]}`
	}
	raw, _, err := open(t, h).Forward(t.Context(), nil, "resources/list", json.RawMessage(`{}`))
	if n := strings.Count(string(raw), "1"); err != nil || n < 4*each || n >= 5*each {
		t.Errorf("%d items, %v", n, err)
	}
}
