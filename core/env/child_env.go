package env

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// childNames are the variables that an MCP server gets without declaring
// them: those without which programs do not work.
func childNames(goos string) []string {
	common := []string{"LANG", "LC_ALL", "TZ"}
	if goos == "windows" {
		return append(common, "APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT",
			"PROCESSOR_ARCHITECTURE", "PROGRAMDATA", "PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP",
			"USERNAME", "USERPROFILE", "WINDIR")
	}
	return append(common, "HOME", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER")
}

// npmNames are the further variables that npm gets.
var npmNames = []string{
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
	"NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR",
}

// ChildEnv is the environment of an MCP server's process as NAME=value,
// sorted: what its entry declares, and the few variables without which
// programs do not work. Folders of PATH that are not absolute are left out: the
// programs in them would be those of whatever folder the process stands in.
func ChildEnv(declared map[string]string, e Environ) []string {
	return childEnv(runtime.GOOS, childNames(runtime.GOOS), declared, e)
}

// NpmEnv is the environment of npm: that of a child, proxies, certificates,
// and those of names (OSNames) that are settings of npm.
func NpmEnv(e Environ, names []string) []string {
	all := append(childNames(runtime.GOOS), npmNames...)
	for _, n := range names {
		if strings.HasPrefix(strings.ToLower(n), "npm_config_") {
			all = append(all, n)
		}
	}
	return childEnv(runtime.GOOS, all, nil, e)
}

func childEnv(goos string, names []string, declared map[string]string, e Environ) []string {
	// Windows does not tell names apart by case: the declared one must win.
	fold := func(s string) string {
		if goos == "windows" {
			return strings.ToUpper(s)
		}
		return s
	}
	var out []string
	taken := map[string]bool{}
	add := func(name, value string) {
		if fold(name) == "PATH" {
			value = absolutePath(value)
		}
		taken[fold(name)] = true
		out = append(out, name+"="+value)
	}
	for name, value := range declared {
		add(name, value)
	}
	for _, name := range names {
		value, ok := "", false
		if e != nil {
			value, ok = e(name)
		}
		// "()" begins a function exported by a shell; those have been abused.
		if !ok || taken[fold(name)] || strings.HasPrefix(value, "()") {
			continue
		}
		add(name, value)
	}
	slices.Sort(out)
	return out
}

// absolutePath leaves out the folders of a PATH that are not absolute. An empty
// folder, and an empty PATH, mean the current one.
func absolutePath(path string) string {
	var kept []string
	for _, folder := range filepath.SplitList(path) {
		if filepath.IsAbs(folder) {
			kept = append(kept, folder)
		}
	}
	if len(kept) == 0 {
		return os.DevNull // where nothing is found
	}
	return strings.Join(kept, string(os.PathListSeparator))
}
