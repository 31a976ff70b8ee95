package setup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/notify"
)

// Notify is how people are told of approvals that wait.
type Notify struct{ base }

// NotifyOptions are what carriers are made with. All fields are needed.
type NotifyOptions struct {
	Home     env.Home
	Environ  env.Environ
	LookPath func(string) (string, error)
	Clock    core.Clock
}

// carrier is a configured carrier: one that can be used, or why not.
type carrier struct {
	entry   env.ResolvedNotifyCarrier
	made    notify.Carrier // nil: it cannot be used
	problem string
}

// carriers makes those that a configuration describes.
func carriers(cfg *env.Config, o NotifyOptions) ([]carrier, error) {
	list, err := cfg.ResolveNotify()
	if err != nil {
		return nil, err
	}
	out := make([]carrier, 0, len(list))
	for _, e := range list {
		c := carrier{entry: e}
		if len(e.Missing) > 0 {
			c.problem = "set " + strings.Join(e.Missing, ", ") + " in " + o.Home.DotEnv() + " or in the environment"
		} else if c.made, err = notify.New(notify.Spec{
			Name: e.Name, Type: e.Type, URL: e.URL, Token: e.Token, Secret: e.Secret, Chat: e.Chat, Command: e.Command, Insecure: e.Insecure,
			Env: env.NotifyEnv(o.Environ), Dir: o.Home.Dir, LookPath: o.LookPath, Clock: o.Clock,
		}); err != nil {
			c.made, c.problem = nil, core.AsError(err).Message
		}
		out = append(out, c)
	}
	return out, nil
}

// notifySettings are those of a configuration, and what is wrong with carriers that are
// left out.
func notifySettings(cfg *env.Config, o NotifyOptions) (notify.Settings, []string, error) {
	n := cfg.Approvals.Notify
	set := notify.Settings{
		Details: n.Details, Page: n.Page, After: n.After, Burst: n.Burst, Remind: n.Remind, Decided: n.Decided,
		Quiet: notify.Quiet{From: n.Quiet.From, To: n.Quiet.To, Zone: n.Quiet.Zone},
	}
	list, err := carriers(cfg, o)
	if err != nil {
		return set, nil, err
	}
	var problems []string
	for _, c := range list {
		if c.made == nil {
			problems = append(problems, c.entry.Name+": "+c.problem)
			continue
		}
		set.Carriers = append(set.Carriers, c.made)
	}
	return set, problems, nil
}

// NotifyReader reads the settings of approvals.notify, again only when one of the files
// has changed that say them. problem, which is told what is wrong, is told it once.
func NotifyReader(o NotifyOptions, problem func(text string)) func() (notify.Settings, error) {
	var mu sync.Mutex
	var read env.Stamp
	var set notify.Settings
	var said []string
	return func() (notify.Settings, error) {
		mu.Lock()
		defer mu.Unlock()
		now := env.StampOf(o.Home.Config(), o.Home.DotEnv())
		if read != "" && now == read {
			return set, nil
		}
		cfg, err := o.Home.Load(o.Environ)
		if err != nil {
			return notify.Settings{}, err
		}
		fresh, problems, err := notifySettings(cfg, o)
		if err != nil {
			return notify.Settings{}, err
		}
		for _, p := range problems {
			if !slices.Contains(said, p) {
				problem(p)
			}
		}
		read, set, said = now, fresh, problems
		return set, nil
	}
}

func (s *Notify) options() NotifyOptions {
	return NotifyOptions{Home: s.o.Home, Environ: s.o.Environ, LookPath: s.o.LookPath, Clock: s.o.Clock}
}

// NotifyCarriers implements api.Notify.
func (s *Notify) NotifyCarriers(ctx context.Context) ([]api.NotifyCarrier, error) {
	cfg, err := s.o.Home.Load(s.o.Environ)
	if err != nil {
		return nil, err
	}
	list, err := carriers(cfg, s.options())
	if err != nil || len(list) == 0 {
		return []api.NotifyCarrier{}, err
	}
	report, err := notify.ReportOf(ctx, s.o.Store)
	if err != nil {
		return nil, err
	}
	out := make([]api.NotifyCarrier, len(list))
	for i, c := range list {
		r := report.Carriers[c.entry.Name]
		out[i] = api.NotifyCarrier{
			Name: c.entry.Name, Type: c.entry.Type, State: api.NotifyReady, Missing: c.entry.Missing,
			Sent: moment(r.Sent), Failed: r.Failed, Since: moment(r.Since), Lost: r.Lost,
		}
		switch {
		case c.made == nil:
			out[i].State, out[i].Error = api.NotifyInvalid, c.problem
		case r.Failed > 0:
			out[i].State, out[i].Error = api.NotifyFailing, r.Error
		}
	}
	return out, nil
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// TestNotify implements api.Notify.
func (s *Notify) TestNotify(ctx context.Context, names ...string) ([]api.NotifyTest, error) {
	cfg, err := s.o.Home.Load(s.o.Environ)
	if err != nil {
		return nil, err
	}
	list, err := carriers(cfg, s.options())
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, core.Errorf(core.CodeNotFound, "no carrier is configured: describe one in approvals.notify.carriers of %s", s.o.Home.Config()).WithNext("pml", "config", "schema")
	}
	if list, err = chosenCarriers(list, names); err != nil {
		return nil, err
	}
	out := make([]api.NotifyTest, len(list))
	var wg sync.WaitGroup
	for i, c := range list {
		wg.Go(func() {
			out[i] = api.NotifyTest{Name: c.entry.Name, Type: c.entry.Type, Error: c.problem}
			defer core.Recover(s.o.Logger, "a test message was sent", func(e *core.Error) { out[i].OK, out[i].Error = false, e.Message })
			if c.made == nil {
				return
			}
			began := s.o.Clock.Now()
			err := c.made.Send(ctx, notify.TestNote(s.o.NewID(), began))
			out[i].TimeMS = float64(s.o.Clock.Now().Sub(began).Microseconds()) / 1000
			if out[i].OK = err == nil; err != nil {
				out[i].Error = core.Visible(err.Error(), 400, false)
			}
		})
	}
	wg.Wait()
	return out, nil
}

// chosenCarriers are those of a list that are meant, all without names.
func chosenCarriers(list []carrier, names []string) ([]carrier, error) {
	if len(names) == 0 {
		return list, nil
	}
	var all []string
	for _, c := range list {
		all = append(all, c.entry.Name)
	}
	var out []carrier
	for _, name := range names {
		i := slices.Index(all, name)
		if i < 0 {
			return nil, core.Errorf(core.CodeNotFound, "there is no carrier %q%s", core.Visible(name, 60, false), core.Suggest(name, all)).WithNext("pml", "notify", "ls")
		}
		out = append(out, list[i])
	}
	return out, nil
}

// checkNotify says which carriers cannot be used or do not take messages.
func (doc *Doctor) checkNotify(ctx context.Context) []api.Check {
	list, err := doc.notify.NotifyCarriers(ctx)
	if err != nil {
		return []api.Check{failed("notifications", err)}
	}
	var out []api.Check
	var ready []string
	for _, c := range list {
		switch c.State {
		case api.NotifyInvalid:
			out = append(out, api.Check{Name: "notifications", Status: checkWarn, Detail: fmt.Sprintf("%s cannot be used: %s", c.Name, c.Error)})
		case api.NotifyFailing:
			out = append(out, api.Check{
				Name: "notifications", Status: checkWarn, Next: []string{"pml", "notify", "test", c.Name},
				Detail: fmt.Sprintf("%s has not taken messages since %s (%d tries, %d given up): %s", c.Name, c.Since.Format(time.RFC3339), c.Failed, c.Lost, c.Error),
			})
		default:
			ready = append(ready, c.Name)
		}
	}
	if len(ready) > 0 {
		out = append(out, api.Check{Name: "notifications", Status: checkOK, Detail: "carriers: " + strings.Join(ready, ", ")})
	}
	return out
}
