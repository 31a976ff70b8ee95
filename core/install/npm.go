package install

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/launch"
)

// npm is the npm of this machine.
type npm struct {
	lookPath func(string) (string, error)
	exec     CommandRunner
	env      []string
	home     string // of the packages
	log      *slog.Logger

	mu       sync.Mutex
	settings map[string]string // what npm has said of its own, by name
}

// npmRun is one run of npm in a folder.
type npmRun struct {
	dir      string
	silence  time.Duration // that ends it
	args     []string
	what     string // begins the message when it fails
	doing    string // what a person sees meanwhile
	subject  string // the package
	packages int    // how many will be fetched; 0 where nobody knows yet
	live     func(string)
	progress func(string) // may be nil
}

// pml shows how far npm is every liveEvery where that is shown in place, and
// aliveEvery where it is kept.
const (
	liveEvery  = 250 * time.Millisecond
	aliveEvery = 10 * time.Second
)

// heard counts the packages that npm has logged as fetched.
type heard struct{ answers, packages atomic.Int64 }

// line counts a line of npm's and returns the address that it fetched, if any.
func (h *heard) line(text string) (url string, fetched bool) {
	url, fetched = fetchedURL(text)
	if fetched {
		h.answers.Add(1)
	}
	cached := strings.HasPrefix(text, "npm http cache ")
	if (fetched || cached) && strings.Contains(text, ".tgz") {
		h.packages.Add(1)
	}
	return url, fetched
}

// text is what is being done and how far it is.
func (n npmRun) text(h *heard) string {
	done, answers := int(h.packages.Load()), int(h.answers.Load())
	switch {
	case n.packages > 0:
		return fmt.Sprintf("%s %d of %s: %s", n.doing, min(done, n.packages), plural(n.packages, "package", "packages"), n.subject)
	case answers > 0:
		return fmt.Sprintf("%s (%s): %s", n.doing, plural(answers, "answer", "answers"), n.subject)
	}
	return n.doing + ": " + n.subject
}

// run runs npm and returns the addresses that it fetched.
func (m *npm) run(ctx context.Context, n npmRun) (fetched []string, err error) {
	path, err := m.lookPath("npm")
	if err != nil {
		return nil, core.Errorf(core.CodeInstallFailed, "%s: npm is not on PATH; MCP servers from npm need it: install Node.js 18 or newer", n.what)
	}
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	silent := time.AfterFunc(n.silence, cancel)
	defer silent.Stop()
	var count heard
	stop := n.alive(m.log, &count)
	var unwritten string
	var fault *core.Error
	hears := func(line string) { // while npm runs, in another goroutine
		defer core.Recover(m.log, "what npm says was read", func(err *core.Error) { fault = err })
		silent.Reset(n.silence)
		if url, ok := count.line(line); ok {
			fetched = append(fetched, url)
		}
		if _, why, ok := strings.Cut(line, " TAR_ENTRY_ERROR "); ok {
			unwritten = why
		}
	}
	// This level names what is fetched; errors come with it.
	out, err := m.exec.Run(limited, CommandLine{Path: path, Args: slices.Concat(n.args, m.patience(), []string{"--loglevel=http"}), Dir: n.dir, Env: m.env, Heard: hears})
	stop()
	switch {
	case fault != nil:
		return nil, fault
	case unwritten != "":
		// npm warns of files that it could not write, and reports success.
		e := core.Errorf(core.CodeInstallFailed, "%s: npm could not write all files: %s", n.what, core.Visible(unwritten, 300, false))
		if strings.Contains(unwritten, "ENOSPC") {
			e.Message += " (the disk is full)"
		}
		return nil, e
	case err == nil:
		return fetched, nil
	case core.CodeOf(context.Cause(ctx)) == core.CodeInstallFailed: // the caller's limit
		return nil, core.Errorf(core.CodeInstallFailed, "%s: %w", n.what, context.Cause(ctx))
	case ctx.Err() != nil:
		return nil, core.Errorf(core.CodeCancelled, "%s: stopped: %w", n.what, context.Cause(ctx))
	case limited.Err() != nil:
		return nil, core.Errorf(core.CodeInstallFailed, "%s: npm has fetched and said nothing for %s; check the network and npm's registry (npm ping), then try again", n.what, n.silence)
	}
	return nil, npmFailed(n.what, out, err)
}

// patience are npm's flags for a registry that does not answer: a person waits,
// and npm would wait ten seconds before it tries once more, and then a minute.
// Who has set it in the environment is right.
func (m *npm) patience() []string {
	if _, set := launch.Variable(m.env, "npm_config_fetch_retries"); set {
		return nil
	}
	return []string{"--fetch-retries=2", "--fetch-retry-mintimeout=500", "--fetch-retry-maxtimeout=2000"}
}

// errNotFound is wrapped by the error of a run in which npm did not find a
// package or a version of it.
var errNotFound = errors.New("npm did not find it")

// IsNotFound reports whether the registry has no such package, or none of the version.
func IsNotFound(err error) bool { return errors.Is(err, errNotFound) }

// errRefused is wrapped by the error of npm ci that does not take a lock.
var errRefused = errors.New("npm refused the lock")

// preferOnline makes npm ask the registry also about what its cache still takes
// for new.
const preferOnline = "--prefer-online"

// runIn runs npm in a folder that prepare has filled. A cache of npm's that is
// older than a version does not know it, and npm then fails without having
// asked anybody: so what it did not find is asked for once more, at the
// registry, in a folder that is as it was before.
func (m *npm) runIn(ctx context.Context, n npmRun, prepare func(dir string) error) (fetched []string, err error) {
	if err := prepare(n.dir); err != nil {
		return nil, err
	}
	fetched, err = m.run(ctx, n)
	if !errors.Is(err, errNotFound) || slices.Contains(n.args, preferOnline) {
		return fetched, err
	}
	if err := emptyFolder(n.dir); err != nil {
		return nil, err
	}
	if err := prepare(n.dir); err != nil {
		return nil, err
	}
	n.args = append(slices.Clone(n.args), preferOnline)
	return m.run(ctx, n)
}

// emptyFolder removes what is in a folder; the folder itself stays the same one.
func emptyFolder(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	if err != nil {
		return diskError("empty "+dir, err)
	}
	return nil
}

// alive tells what is being done, now and while it lasts, until stop returns.
func (n npmRun) alive(log *slog.Logger, h *heard) (stop func()) {
	if n.progress == nil {
		n.progress = func(string) {}
	}
	n.live(n.text(h))
	n.progress(n.text(h))
	done := make(chan struct{})
	var teller sync.WaitGroup
	teller.Go(func() {
		defer core.Recover(log, "it was told what npm does", nil)
		ticks := time.NewTicker(liveEvery)
		defer ticks.Stop()
		for passed := liveEvery; ; passed += liveEvery {
			select {
			case <-done:
				return
			case <-ticks.C:
				n.live(n.text(h))
				if passed%aliveEvery == 0 {
					n.progress(fmt.Sprintf("%s (%s)", n.text(h), passed))
				}
			}
		}
	})
	return func() {
		close(done)
		teller.Wait()
	}
}

// fetchedURL reads a line with which npm says what it fetched.
func fetchedURL(line string) (string, bool) {
	rest, ok := strings.CutPrefix(line, "npm http fetch GET 200 ")
	url, _, _ := strings.Cut(rest, " ")
	return url, ok && url != ""
}

// npmFailed makes an error of npm's last words.
func npmFailed(what string, out CommandOutput, err error) *core.Error {
	code, lines := npmErrors(string(out.Stderr))
	kind := core.CodeInstallFailed
	hint := ""
	switch code {
	case "EINTEGRITY":
		kind, hint = core.CodeIntegrityFailed, "what the registry serves is not what was pinned; do not install it before you know why"
	case "E404", "ETARGET":
		hint = "check the package's name and version"
		err = errors.Join(err, errNotFound, errFinal)
	case "EUSAGE":
		err = errors.Join(err, errRefused, errFinal)
	case "ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "ENETUNREACH":
		hint = "check the network and the proxy settings"
	case "E429", "E500", "E502", "E503", "E504":
		hint = "the registry cannot answer now; try again later, or name another registry in .npmrc"
	case "E401", "E403":
		hint = "the registry does not let this user have it; log in with npm, or look at .npmrc"
	case "ENOSPC":
		hint = "the disk is full; make room and try again"
	}
	if len(lines) == 0 {
		lines = []string{fmt.Sprintf("npm failed: %v", err)}
		// It did not get as far as its own way of telling.
		for line := range strings.SplitSeq(strings.TrimSpace(string(out.Stderr)), "\n") {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "npm ") && len(lines) < 4 {
				lines = append(lines, line)
			}
		}
	}
	message := core.Visible(strings.Join(lines, "; "), 1000, false)
	if hint != "" {
		message += " (" + hint + ")"
	}
	e := core.Errorf(kind, "%w", err)
	e.Message = what + ": " + message
	return e
}

// npmAdvice is what npm says after each failure of the network or of a look-up; pml's own hint
// says it in fewer words.
var npmAdvice = []string{"This is a problem related to network", "In most cases you are behind a proxy", "If you are behind a proxy", "'proxy' config", "Note that you can also install from a", "tarball, folder, http url, or git url."}

// npmErrors returns npm's error code and its last error lines; warnings and
// notices are left out.
func npmErrors(text string) (code string, lines []string) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		rest, ok := strings.CutPrefix(line, "npm error")
		if !ok {
			rest, ok = strings.CutPrefix(line, "npm ERR!")
		}
		rest = strings.TrimSpace(rest)
		if !ok || rest == "" || strings.HasPrefix(rest, "A complete log") || rest == code {
			continue
		}
		if c, found := strings.CutPrefix(rest, "code "); found && code == "" {
			code = c
			continue
		}
		rest = strings.TrimSpace(strings.TrimPrefix(rest, "network"))
		// npm repeats its code before each line; those that say nothing go.
		rest = strings.TrimSpace(strings.TrimPrefix(rest, strings.TrimPrefix(code, "E")+" "))
		if strings.HasPrefix(rest, "errno ") || strings.HasPrefix(rest, "syscall ") || slices.ContainsFunc(npmAdvice, func(s string) bool { return strings.HasPrefix(rest, s) }) {
			continue
		}
		if rest != strings.TrimPrefix(code, "E") && rest != "" {
			lines = append(lines, rest)
		}
	}
	if len(lines) > 8 {
		lines = lines[:8]
	}
	return code, lines
}
