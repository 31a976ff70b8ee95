package daemon

import (
	"slices"
	"strings"
)

// kept are the variables that a background server gets from its starter. It
// outlives the terminal and serves every workspace, so it must not see what one
// shell happens to have set: keys of tools come from each workspace's .env, and
// a variable for pml alone may be put into the environment of "pml serve".
var kept = []string{
	"HOME", "PATH", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY",
	"USERPROFILE", "SYSTEMROOT", "APPDATA", "LOCALAPPDATA", "TEMP", "TMP", "COMSPEC", "PATHEXT",
}

// keptPrefixes are the beginnings of the names of further ones: locales, the
// desktop's folders, telemetry, npm's registry settings, pml's own.
var keptPrefixes = []string{"LC_", "XDG_", "OTEL_", "NPM_CONFIG_", "PML_"}

// dropped are those of pml's own that speak of one command, not of a server.
var dropped = []string{"PML_SERVER", "PML_API_KEY", "PML_WORKSPACE", "PML_NO_AUTOSTART", "PML_HOME"}

// ChildEnv is the environment of a background server: what an allow-list keeps
// of the starter's, and the home.
func ChildEnv(home string, environ func(string) (string, bool), names []string) []string {
	out := []string{"PML_HOME=" + home}
	for _, name := range names {
		upper := strings.ToUpper(name)
		if slices.Contains(dropped, upper) || !keeps(upper) {
			continue
		}
		if v, ok := environ(name); ok {
			out = append(out, name+"="+v)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func keeps(upper string) bool {
	return slices.Contains(kept, upper) || slices.ContainsFunc(keptPrefixes, func(p string) bool { return strings.HasPrefix(upper, p) })
}
