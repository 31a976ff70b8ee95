package process

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"gopkg.in/natefinch/lumberjack.v2"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/daemon"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/store"
)

// notifyPeople tells people of what waits on this machine. One process of a home does.
func notifyPeople(ctx context.Context, o app.NotifyOptions) (err error) {
	environ := env.OS()
	home, err := ownHome(o.Home, environ)
	if err != nil {
		return err
	}
	if err := home.Ensure(); err != nil {
		return err
	}
	release, err := daemon.Alone(ctx, home.Dir)
	if err != nil {
		if o.Background && core.CodeOf(err) == core.CodeStoreBusy {
			return nil // that one does
		}
		return err
	}
	log, out := notifyLog(o, home)
	defer func() { err = errors.Join(err, out.Close()) }()
	c := &connector{home: home, workspace: env.Workspace{Dir: home.Dir, Source: "home"}, environ: environ, via: core.ViaCLI, noStart: true}
	half, err := openHalf(o.OpenOptions, c, log)
	if err != nil {
		release()
		return err
	}
	defer func() { err = errors.Join(err, half.Close()) }()
	if o.Ready != nil {
		o.Ready()
	}
	for {
		err := half.Notify(ctx, o.Idle)
		release()
		if err != nil || ctx.Err() != nil || o.Idle == 0 {
			return err
		}
		// Somebody may have asked after the last look and have left it to this process. From
		// here on whoever asks starts another one.
		if more, err := half.NotifyOnce(ctx); err != nil || !more {
			return err
		}
		if release, err = daemon.Alone(ctx, home.Dir); err != nil {
			return nil //nolint:nilerr // another process does
		}
	}
}

// notifyLog is stderr, or in the background a file.
func notifyLog(o app.NotifyOptions, home env.Home) (*slog.Logger, io.Closer) {
	var out io.WriteCloser = kept{os.Stderr}
	if o.Background {
		out = &lumberjack.Logger{Filename: daemon.NotifyLogFile(home.Dir), MaxSize: logSize, MaxBackups: 1}
	}
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: logLevel(o.Log, slog.LevelInfo)})), out
}

// announced is a store of which people are told: after something has come to wait, or was
// decided, it sees to it that a process does so. Nothing here waits for that.
type announced struct {
	store.Store
	start func()

	mu      sync.Mutex
	running bool // start
	again   bool // there was news meanwhile
	wg      sync.WaitGroup
}

// news has people told.
func (a *announced) news() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.running {
		a.again = true
		return
	}
	a.running = true
	a.wg.Go(func() {
		for {
			a.start()
			a.mu.Lock()
			if !a.again {
				a.running = false
				a.mu.Unlock()
				return
			}
			a.again = false
			a.mu.Unlock()
		}
	})
}

// Commit implements store.Writer.
func (a *announced) Commit(ctx context.Context, step store.Step) error {
	err := a.Store.Commit(ctx, step)
	if err == nil && len(step.Open)+len(step.Supersede) > 0 {
		a.news()
	}
	return err
}

// Decide implements store.Decider.
func (a *announced) Decide(ctx context.Context, d core.Decision, renew store.Renewal) (core.Approval, error) {
	ap, err := a.Store.Decide(ctx, d, renew)
	if err == nil {
		a.news()
	}
	return ap, err
}

// Renew implements store.Decider.
func (a *announced) Renew(ctx context.Context, id, fresh core.ID, now time.Time, until *time.Time, by core.Actor) (core.Approval, error) {
	ap, err := a.Store.Renew(ctx, id, fresh, now, until, by)
	if err == nil {
		a.news()
	}
	return ap, err
}

// Close implements store.Store.
func (a *announced) Close() error {
	a.wg.Wait()
	return a.Store.Close()
}

// notifyIdle is how long the process that pml starts by itself stays with nothing to do.
const notifyIdle = "1m"

// starter starts the process that tells people of what waits, if carriers are configured
// and none runs yet. What goes wrong is logged, and holds nothing up.
func starter(home env.Home, environ env.Environ, log *slog.Logger) func() {
	return func() {
		defer core.Recover(log, "the process for notifications was started", nil)
		if daemon.Refusal(environ) != "" || daemon.Notifies(home.Dir) {
			return
		}
		cfg, err := home.Load(environ)
		if err != nil || len(cfg.Approvals.Notify.Carriers) == 0 {
			return // whoever needs the configuration says what is wrong with it
		}
		self, err := executable()
		if err == nil {
			err = daemon.Detach([]string{self, "notify", "run", "--background", "--idle", notifyIdle}, notifyEnv(cfg, home, environ), daemon.NotifyLogFile(home.Dir))
		}
		if err != nil {
			log.Warn("nobody is told of what waits", "error", core.AsError(err))
		}
	}
}

// notifyEnv is the environment of that process: that of a server in the background, and
// what carriers need of this one.
func notifyEnv(cfg *env.Config, home env.Home, environ env.Environ) []string {
	out := map[string]string{}
	for _, name := range cfg.NotifyVariables() {
		if v, ok := environ(name); ok {
			out[name] = v
		}
	}
	list := daemon.ChildEnv(home.Dir, environ, env.OSNames())
	for _, name := range slices.Sorted(maps.Keys(out)) {
		list = append(list, name+"="+out[name])
	}
	return list
}
