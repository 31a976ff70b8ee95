package cli_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

func TestNotify_Ls(t *testing.T) {
	t.Parallel()
	sent := at.Add(-2 * time.Minute)
	f := &fake{world: world{carriers: []api.NotifyCarrier{
		{Name: "phone", Type: "ntfy", State: api.NotifyReady, Sent: &sent},
		{Name: "team", Type: "slack", State: api.NotifyFailing, Error: "answered 500\x1b[2J", Failed: 3},
	}}}
	(&shell{fake: f}).run("notify", "ls").want(t, 0).
		has(t, "out", "phone  ntfy   ready", "team   slack  failing", `answered 500\x1b[2J`)
	(&shell{fake: f}).run("notify", "ls", "--json").want(t, 0).has(t, "out", `"failed": 3`)
	(&shell{fake: &fake{}}).run("notify", "ls").want(t, 0).has(t, "err", "no carriers")
	(&shell{fake: f}).run("status").want(t, 0).has(t, "out", "not notified (1)", "team", `answered 500\x1b[2J`)
}

func TestNotify_Test(t *testing.T) {
	t.Parallel()
	f := &fake{world: world{notifyTests: []api.NotifyTest{{Name: "phone", Type: "ntfy", OK: true, TimeMS: 12.4}}}}
	(&shell{fake: f}).run("notify", "test", "phone").want(t, 0).has(t, "out", "phone  ntfy  taken", "12ms")
	f.world.notifyTests = append(f.world.notifyTests, api.NotifyTest{Name: "team", Type: "slack", Error: "answered 403"})
	(&shell{fake: f}).run("notify", "test").want(t, 1).has(t, "out", "answered 403")
	if diff := cmp.Diff([]string{"phone"}, f.world.notifyNames); diff != "" {
		t.Error(diff)
	}
	(&shell{fake: &fake{failWith: core.Errorf(core.CodeNotFound, "no carrier is configured")}}).run("notify", "test").want(t, 3).has(t, "err", "no carrier")
}

func TestNotify_Run(t *testing.T) {
	t.Parallel()
	s := &shell{fake: &fake{}}
	s.run("notify", "run", "--idle", "1m", "--home", "/x").want(t, 0)
	if got := s.notified; got.Idle != time.Minute || got.Home != "/x" || got.Background {
		t.Errorf("%+v", got)
	}
}

func (s *shell) notify(_ context.Context, o app.NotifyOptions) error {
	s.notified = o
	return nil
}
