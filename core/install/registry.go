package install

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
)

// registryTime bounds how long npm may take to say which registry it uses.
const registryTime = 20 * time.Second

// Registry is where npm fetches a package from on this machine, by the settings
// of the user, of the machine and of the environment: a URL without credentials.
// It is empty when npm does not say it. The answer is kept for this process.
func (in *Installer) Registry(ctx context.Context, pkg string) string {
	keys := []string{"registry"}
	if scope, _, ok := strings.Cut(pkg, "/"); ok && strings.HasPrefix(scope, "@") {
		keys = []string{scope + ":registry", "registry"}
	}
	for _, key := range keys {
		if address := in.npm.setting(ctx, key); address != "" {
			return address
		}
	}
	return ""
}

// setting asks npm for a setting that is a URL; empty when there is none.
func (m *npm) setting(ctx context.Context, key string) string {
	m.mu.Lock()
	known, ok := m.settings[key]
	m.mu.Unlock()
	if ok {
		return known
	}
	path, err := m.lookPath("npm")
	if err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, registryTime)
	defer cancel()
	out, err := m.exec.Run(ctx, CommandLine{Path: path, Args: []string{"config", "get", key}, Dir: m.home, Env: m.env})
	if err != nil {
		m.log.Warn("npm does not say which registry it uses", "setting", key, "error", err)
		return ""
	}
	address := withoutUser(strings.TrimSpace(string(out.Stdout)))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settings[key] = address
	return address
}

// withoutUser returns an address of the web without credentials and query; empty
// for anything else, such as npm's "undefined".
func withoutUser(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return ""
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return core.Visible(u.String(), 200, false)
}
