package env

import (
	"runtime"
	"slices"
	"strings"
)

// Variables that decide which code a process loads, or where the code that it
// runs is fetched from: by their names, and by how their names begin.
var (
	loaderNames = []string{
		"NODE_OPTIONS", "NODE_PATH", "PATH", "PATHEXT", "HOME", "USERPROFILE", "SHELL", "SHELLOPTS", "BASHOPTS", "BASH_ENV", "ENV", "ZDOTDIR", "CLASSPATH",
		"JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "JAVA_HOME", "PERLLIB", "PHPRC", "PHP_INI_SCAN_DIR", "VIRTUAL_ENV",
		"DOTNET_STARTUP_HOOKS", "GCONV_PATH", "GLIBC_TUNABLES", "GOFLAGS", "GOENV", "GOPROXY", "GOTOOLCHAIN", "JAVA_OPTS",
	}
	loaderPrefixes = []string{
		"LD_", "DYLD_", "PYTHON", "PERL5", "RUBY", "GEM_", "BUNDLE_", "BUN_", "DENO_", "LUA_", "UV_", "PIP_", "PIPX_", "DOCKER_", "CONTAINER_",
		"CORECLR_", "BASH_FUNC_", "XDG_", "GIT_CONFIG", "GIT_EXEC", "GIT_SSH", "NPM_CONFIG_", "npm_config_", "CARGO_", "RUSTC_",
	}
	// Words of names that hold a key, whatever their beginning.
	keyNames = []string{"TOKEN", "PASSWORD", "SECRET", "KEY", "AUTH", "USERNAME"}
)

// isLoader reports whether a variable decides what a process runs. Keys, such
// as DENO_AUTH_TOKENS, do not.
func isLoader(name string) bool {
	if runtime.GOOS == "windows" {
		name = strings.ToUpper(name)
	}
	begins := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
	holds := func(word string) bool { return strings.Contains(name, word) }
	return slices.Contains(loaderNames, name) || slices.ContainsFunc(loaderPrefixes, begins) && !slices.ContainsFunc(keyNames, holds)
}

// loader returns the variables of an entry that decide what runs, expanded, and
// the places of those that .env filled. A variable that pml's own environment
// gives under the very same name, as in "PATH": "/opt/bin:${PATH}", stays a
// name: it is this user's and no other is meant by it. One that is nothing else
// is left out, and so are empty ones.
func (v *variables) loader(e ServerEntry) (values map[string]string, fromDotEnv []string) {
	for name, text := range e.Env {
		if !isLoader(name) {
			continue
		}
		value, fromFile := v.loaderValue(e, name, text)
		if value == "" || value == "${"+name+"}" {
			continue
		}
		if values == nil {
			values = map[string]string{}
		}
		values[name] = value
		if fromFile {
			fromDotEnv = append(fromDotEnv, pointer("/env", name))
		}
	}
	slices.Sort(fromDotEnv)
	return values, fromDotEnv
}

func (v *variables) loaderValue(e ServerEntry, name, text string) (value string, fromFile bool) {
	own := *v
	own.environ = func(n string) (string, bool) {
		if value := v.environ.get(n); n != name || value == "" {
			return value, value != ""
		}
		return "${" + n + "}", true
	}
	d := own.declared(e, name, text, ignore)
	v.read, v.values, v.faults = own.read, own.values, own.faults
	return d.value, d.file
}
