package install_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/install"
)

// slowNPM says that it has fetched something and works on until it is let go.
type slowNPM struct {
	release chan struct{}
	args    []string
}

func (s *slowNPM) Run(ctx context.Context, c install.CommandLine) (install.CommandOutput, error) {
	s.args = c.Args
	c.Heard("npm http fetch GET 200 http://registry/demo 5ms (cache miss)")
	select {
	case <-s.release:
	case <-ctx.Done():
	}
	return install.CommandOutput{}, os.ErrDeadlineExceeded
}

// While npm works a person is told how many requests it has made: packages are
// another number.
func TestNPM_TellsRequests(t *testing.T) {
	t.Parallel()
	npm := &slowNPM{release: make(chan struct{})}
	var once sync.Once
	in := install.New(install.Options{Home: t.TempDir(), LookPath: anyPath, Clock: clock, Run: npm, Progress: func(text string) {
		if strings.Contains(text, "(1 answer)") {
			once.Do(func() { close(npm.release) })
		}
	}})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if _, err := in.Latest(ctx, demoSpec(t)); core.CodeOf(err) != core.CodeInstallFailed {
		t.Errorf("it was never told: %v", err)
	}
}

// A registry that does not answer is not waited for as long as npm would, unless
// somebody has said so.
func TestNPM_Patience(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		env  []string
		want bool
	}{{nil, true}, {[]string{"npm_config_fetch_retries=7"}, false}} {
		npm := &slowNPM{release: make(chan struct{})}
		close(npm.release)
		in := install.New(install.Options{Home: t.TempDir(), LookPath: anyPath, Clock: clock, Run: npm, Env: c.env})
		if _, err := in.Latest(t.Context(), demoSpec(t)); err == nil {
			t.Fatal("no error")
		}
		if got := slices.Contains(npm.args, "--fetch-retry-maxtimeout=2000"); got != c.want {
			t.Errorf("%v: %v", c.env, npm.args)
		}
	}
}

// Whoever is told what npm does may panic: npm goes on.
func TestNPM_ToldPanics(t *testing.T) {
	t.Parallel()
	npm := &slowNPM{release: make(chan struct{})}
	var once sync.Once
	in := install.New(install.Options{Home: t.TempDir(), LookPath: anyPath, Clock: clock, Run: npm, Progress: func(text string) {
		if strings.Contains(text, "(1 answer)") {
			once.Do(func() { close(npm.release) })
			panic("whoever is told")
		}
	}})
	if _, err := in.Latest(t.Context(), demoSpec(t)); core.CodeOf(err) != core.CodeInstallFailed {
		t.Error(err)
	}
}
