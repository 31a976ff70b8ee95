package gate

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/launch"
)

// resolve expands the server's entry. An entry of the home does not run in the
// folder that pml happens to be used in: an interpreter finds modules and
// settings there, and nobody has trusted them. It runs in the home, unless it
// names a folder itself. Installed packages and containers bring their own files
// and run in the workspace, which they are mostly about.
func (s *server) resolve() (env.Resolved, error) {
	r, err := s.set.granted.Resolve(s.name)
	if err != nil || r.Type != env.TypeStdio || s.entry.Origin != env.FromHome || r.Cwd != "" {
		return r, err
	}
	// A command that is not recognised is refused by who would run it.
	spec, err := s.recognize(r)
	if err != nil || spec.Kind == launch.KindNPM || spec.Kind == launch.KindDocker && ownsPlace(r.Command) {
		return r, nil
	}
	r.Dir = s.host.o.Home.Dir
	return r, s.host.o.Home.Ensure()
}

// ownsPlace reports whether a command means the same program in every folder,
// by its name or its whole path, and starts it itself.
func ownsPlace(command string) bool {
	name := strings.ToLower(strings.TrimSuffix(filepath.Base(command), ".exe"))
	return slices.Contains([]string{"docker", "podman", "nerdctl"}, name) && (filepath.IsAbs(command) || !strings.ContainsAny(command, `/\`))
}

// recognize finds out what the command of a server is. Its digest covers, beside
// the line, the folder that the entry names and the variables that decide which
// code is loaded, where there are any.
func (s *server) recognize(r env.Resolved) (launch.Spec, error) {
	spec, err := launch.Recognize(launch.Command{Name: s.name, Command: r.Command, Args: r.Args})
	if err != nil || r.Cwd == "" && len(r.Loader) == 0 {
		return spec, err
	}
	spec.CommandDigest, err = core.DigestOf(map[string]any{"line": spec.CommandDigest, "cwd": s.folder(r), "loader": r.Loader})
	return spec, err
}

// folder is the folder that an entry names, the same on each machine where it is
// one of the workspace.
func (s *server) folder(r env.Resolved) string {
	if r.Cwd == "" {
		return ""
	}
	if rel, err := filepath.Rel(s.host.o.Workspace.Dir, r.Dir); err == nil && (filepath.IsLocal(rel) || !filepath.IsAbs(r.Cwd)) {
		return filepath.ToSlash(rel)
	}
	return r.Dir
}

// address asks when a server's requests, and the keys in them, would go to
// another place than before, and records where they go.
func (s *server) address(r env.Resolved) (*engine.Ask, error) {
	spec, err := endpoint(r)
	if err != nil {
		return nil, err
	}
	if ask := s.commandChanged(spec, r); ask != nil {
		return ask, nil
	}
	return nil, s.recordCommand(spec, r, "")
}

// addressStands is an error when nobody has agreed yet that a server's requests
// go where they would go now.
func (s *server) addressStands(r env.Resolved) error {
	spec, err := endpoint(r)
	if err != nil {
		return err
	}
	if ask := s.commandChanged(spec, r); ask != nil {
		return core.Errorf(core.CodeIntegrityFailed, "nothing was sent to the server %s: %s A call of one of its tools asks about it.", s.name, ask.Description)
	}
	return nil
}

// endpoint is what takes the place of a command for a server that is reached by
// URL. Its digest covers where requests go and which headers they carry, not the
// keys in them nor a query, which may hold some.
func endpoint(r env.Resolved) (launch.Spec, error) {
	u, err := url.Parse(r.URL)
	if err != nil {
		return launch.Spec{}, core.Errorf(core.CodeInvalidConfig, "the url of the server %s cannot be read; correct it", r.Name)
	}
	digest, err := core.DigestOf(map[string]any{
		"scheme": strings.ToLower(u.Scheme), "host": strings.ToLower(u.Hostname()), "port": u.Port(), "path": u.EscapedPath(),
		"headers": headerNames(r),
	})
	return launch.Spec{Kind: launch.KindOther, CommandDigest: digest}, err
}

func headerNames(r env.Resolved) []string {
	names := []string{}
	for name := range r.Headers {
		names = append(names, http.CanonicalHeaderKey(name))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// maxWholeLine bounds a line that somebody decides about.
const maxWholeLine = 4000

// lineChange describes the line of a command, or the address of a server, that
// nobody has agreed to yet. was is the text of the one before, old its digest;
// both are empty for the first one, which is asked about because .env filled
// something of it, or because it runs any code.
func (s *server) lineChange(spec launch.Spec, r env.Resolved, old, was string) (description string, changed []string) {
	what := "The command of the server " + s.name
	if r.Type == env.TypeHTTP {
		what = "The address of the server " + s.name
	}
	text := s.lineOf(r)
	shown := s.set.redact.String(text)
	switch {
	case old != "":
		description = what + " has changed to: " + core.Visible(shown, 200, false)
	case len(r.FromDotEnv) == 0:
		description = what + " runs any code, by its command line (" + core.Visible(spec.AnyCode, 60, false) + "): " + core.Visible(shown, 200, false)
	default:
		description = what + " is filled from .env, which nobody was asked about yet: " + core.Visible(shown, 200, false)
	}
	if was != "" {
		changed = append(changed, "- "+was)
	}
	changed = append(changed, "+ "+core.Visible(shown, maxWholeLine, false))
	if len(r.FromDotEnv) > 0 {
		places := make([]string, len(r.FromDotEnv))
		for i, place := range r.FromDotEnv {
			places[i] = strings.TrimPrefix(place, "/")
		}
		changed = append(changed, core.Visible("from .env: "+strings.Join(places, ", "), maxChangeLine, false))
	}
	if spec.AnyCode != "" {
		changed = append(changed, core.Visible("runs any code: "+spec.AnyCode, maxChangeLine, false))
	}
	if shown != text || strings.ContainsAny(text, "«…") {
		changed = append(changed, "a value that may be a key is left out; it is in "+s.host.o.Workspace.DotEnv()+" or in the environment")
	}
	return description, changed
}

// lineOf is what a server runs, or where it is reached, in one line: variables
// that decide what is loaded, command, arguments and folder.
func (s *server) lineOf(r env.Resolved) string {
	if r.Type == env.TypeHTTP {
		return s.addressOf(r)
	}
	var words []string
	for _, name := range slices.Sorted(maps.Keys(r.Loader)) {
		value := r.Loader[name]
		if strings.ContainsAny(value, " \t\n\"'") {
			value = strconv.Quote(value)
		}
		words = append(words, name+"="+value)
	}
	words = append(append(words, r.Command), r.Args...)
	if r.Cwd != "" {
		words = append(words, "(in "+r.Cwd+")")
	}
	return strings.Join(words, " ")
}

// addressOf is where a server is reached, without user and query, and without a
// path that is part of a key.
func (s *server) addressOf(r env.Resolved) string {
	u, err := url.Parse(r.URL)
	if err != nil {
		return "a URL that cannot be read"
	}
	origin := u.Scheme + "://" + u.Host
	line := s.set.redact.String(origin + u.EscapedPath())
	if !strings.HasPrefix(line, origin) {
		line = origin + "/…"
	}
	if names := headerNames(r); len(names) > 0 {
		line += fmt.Sprintf(" (headers: %s)", strings.Join(names, ", "))
	}
	return line
}
