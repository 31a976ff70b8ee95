package env

import (
	"slices"
	"strings"
)

// Variables that decide which code a process loads, where the code that it runs
// is fetched from, or where it sends what it was given: by their whole names, by
// how these begin, and by what is in them. .env fills none of them without a
// question. The lists are kept by hand; each line names its source.
var (
	loaderNames = []string{
		// nodejs.org/api/cli.html, "Environment variables"; corepack, nvm, volta.
		"NODE_OPTIONS", "NODE_PATH", "NODE_EXTRA_CA_CERTS", "NODE_TLS_REJECT_UNAUTHORIZED", "NODE_REPL_EXTERNAL_MODULE", "NODE_ICU_DATA", "NODE_V8_COVERAGE",
		"ELECTRON_RUN_AS_NODE", "PNPM_HOME", "VOLTA_HOME", "NVM_DIR", "TS_NODE_PROJECT", "ESBUILD_BINARY_PATH",
		// POSIX, "Environment Variables"; bash(1), zsh(1), dash(1), ksh(1).
		"PATH", "PATHEXT", "HOME", "USERPROFILE", "SHELL", "COMSPEC", "SHELLOPTS", "BASHOPTS", "BASH_ENV", "ENV", "ZDOTDIR", "FPATH", "IFS", "PS4",
		"PROMPT_COMMAND", "CDPATH", "EDITOR", "VISUAL", "PAGER", "MANPAGER", "BROWSER", "LESSOPEN", "LESSCLOSE", "TMPDIR", "TERMINFO", "TERMCAP",
		// docs.oracle.com, "java" launcher; openjdk JDK_JAVA_OPTIONS; gradle, maven, sbt, jruby and Android launchers.
		"CLASSPATH", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "JAVA_HOME", "JRE_HOME", "GRADLE_USER_HOME", "GRADLE_HOME", "M2_HOME", "MAVEN_HOME",
		"JRUBY_HOME", "ANDROID_HOME", "SCALA_HOME", "GROOVY_HOME",
		// perlrun(1), php.ini, lua(1), tclsh(1), R "Startup", Julia "Environment Variables", erl(1), guile(1), ocaml(1).
		"PERLLIB", "PHPRC", "PHP_INI_SCAN_DIR", "TCLLIBPATH", "R_HOME", "R_LIBS", "R_LIBS_USER", "R_PROFILE", "R_ENVIRON", "JULIA_LOAD_PATH", "JULIA_DEPOT_PATH",
		"JULIA_PROJECT", "ERL_LIBS", "ERL_AFLAGS", "ERL_ZFLAGS", "GUILE_LOAD_PATH", "GUILE_LOAD_COMPILED_PATH", "OCAMLPATH", "CAML_LD_LIBRARY_PATH", "NIX_PATH",
		"HASKELL_DIST_DIR", "GHC_PACKAGE_PATH",
		// docs.python.org, "Command line and environment": PYTHON* below; venv, requests, conda.
		"VIRTUAL_ENV", "CONDA_PREFIX", "REQUESTS_CA_BUNDLE",
		// learn.microsoft.com, ".NET environment variables".
		"DOTNET_STARTUP_HOOKS", "DOTNET_ROOT", "DOTNET_ADDITIONAL_DEPS", "DOTNET_SHARED_STORE", "PSMODULEPATH",
		// ld.so(8), gconv, glibc tunables, resolver(5), nsswitch.
		"GCONV_PATH", "GLIBC_TUNABLES", "LOCPATH", "NLSPATH", "HOSTALIASES", "RES_OPTIONS", "LOCALDOMAIN", "MALLOC_TRACE",
		// go.dev/ref "Environment variables" of the go command.
		"GOFLAGS", "GOENV", "GOPATH", "GOROOT", "GOPROXY", "GONOSUMDB", "GONOSUMCHECK", "GOSUMDB", "GOPRIVATE", "GOINSECURE", "GOTOOLCHAIN", "GOBIN",
		// docs.openssl.org, openssl-env(7); curl(1); NSS.
		"OPENSSL_CONF", "OPENSSL_CONF_INCLUDE", "OPENSSL_ENGINES", "OPENSSL_MODULES", "SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE", "CURL_CA_BUNDLE", "CURL_HOME",
		// kubernetes.io "kubeconfig" (exec plugins), helm, terraform, ansible (below), AWS credential_process, Google executable-sourced credentials.
		"KUBECONFIG", "HELM_PLUGINS", "HELM_REGISTRY_CONFIG", "TF_CLI_CONFIG_FILE", "TF_PLUGIN_CACHE_DIR", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CA_BUNDLE",
		"GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES",
		// postgresql.org, libpq "Environment Variables"; psql(1); mysql "Environment Variables".
		"PGHOSTADDR", "PGSERVICE", "PGSERVICEFILE", "PGSYSCONFDIR", "PGSSLROOTCERT", "PSQLRC", "PSQL_EDITOR", "MYSQL_HOME", "LIBMYSQL_PLUGINS", "LIBMYSQL_PLUGIN_DIR",
		// docs.gtk.org, doc.qt.io, playwright and puppeteer: which modules or browsers are started.
		"GTK_MODULES", "GTK_PATH", "GIO_EXTRA_MODULES", "GIO_MODULE_DIR", "GDK_PIXBUF_MODULE_FILE", "QT_PLUGIN_PATH", "QT_QPA_PLATFORM_PLUGIN_PATH",
		"CHROME_PATH", "CHROME_BIN", "PUPPETEER_EXECUTABLE_PATH", "PLAYWRIGHT_BROWSERS_PATH", "PLAYWRIGHT_DOWNLOAD_HOST",
		// ssh(1): agents and askpass; gpg(1).
		"SSH_AUTH_SOCK", "GNUPGHOME", "GPG_AGENT_INFO",
	}
	loaderPrefixes = []string{
		// ld.so(8), dyld(1); docs.python.org; perlrun(1), ruby(1), bundler, rubygems, lua(1).
		"LD_", "DYLD_", "PYTHON", "PERL5", "RUBY", "GEM_", "BUNDLE_", "LUA_",
		// bun.sh, deno.com, npm "config" and yarn, uv, pip, pipx, corepack, cargo and rustc.
		"BUN_", "DENO_", "NPM_CONFIG_", "YARN_", "COREPACK_", "UV_", "PIP_", "PIPX_", "CARGO_", "RUSTC_", "RUSTUP_",
		// docs.docker.com, podman; CLR profiling; bash(1) functions; the XDG base directories; git(1); ansible; mise and asdf.
		"DOCKER_", "CONTAINER_", "CONTAINERS_", "CORECLR_", "COR_PROFILER", "BASH_FUNC_", "XDG_", "GIT_CONFIG", "GIT_EXEC", "GIT_SSH", "GIT_TEMPLATE", "GIT_PROXY",
		"GIT_EDITOR", "GIT_PAGER", "GIT_EXTERNAL", "GIT_DIR", "GIT_WORK_TREE", "ANSIBLE_", "MISE_", "ASDF_",
	}
	// What no name may hold, whatever else: settings that take flags, files of
	// settings, other ways to the network, programs that are asked for passwords.
	loaderParts = []string{"CONFIG", "PROXY", "ASKPASS", "PRELOAD"}
	// The same at the end of a name: flags of launchers (MAVEN_OPTS, JRUBY_OPTS),
	// and the addresses to which keys are sent (OPENAI_BASE_URL, PGHOST).
	loaderEndings = []string{
		"_OPTS", "_OPT", "_OPTIONS", "_FLAGS", "_ARGS", "_CONF", "_RC", "_INIT", "_STARTUP", "_PLUGINS", "_PLUGIN_DIR", "_EXTENSIONS", "_HOOKS", "_SHELL",
		"_COMMAND", "_EXECUTABLE", "_BASE_URL", "_API_URL", "_API_BASE", "_API_HOST", "_ENDPOINT", "_ENDPOINT_URL", "_REGISTRY", "HOST",
	}
	// Words of names that hold a key, in spite of a beginning above.
	keyEndWords = []string{"TOKEN", "TOKENS", "PASSWORD", "SECRET", "KEY", "AUTH", "USERNAME"}
)

// isLoader reports whether a variable decides what a process runs or where it
// sends things. Keys, such as DENO_AUTH_TOKENS, do not. Case does not count:
// https_proxy means the same as HTTPS_PROXY, and to Windows all names do.
func isLoader(name string) bool {
	name = strings.ToUpper(name)
	begins := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
	ends := func(ending string) bool { return strings.HasSuffix(name, ending) }
	holds := func(word string) bool { return strings.Contains(name, word) }
	endsWithWord := func(word string) bool { return strings.HasSuffix(name, "_"+word) }
	switch {
	case slices.Contains(loaderNames, name), slices.ContainsFunc(loaderParts, holds), slices.ContainsFunc(loaderEndings, ends):
		return true
	}
	return slices.ContainsFunc(loaderPrefixes, begins) && !slices.ContainsFunc(keyEndWords, endsWithWord)
}

// fromDotEnv stands for the value of a variable that .env filled and of which
// nothing is known: it may be a key, which no digest must be made of.
const fromDotEnv = "(from .env)"

// loader returns the variables of an entry that decide what runs, expanded, and
// the places of those that .env filled. Of the others it returns those that .env
// filled and whose names are no names of keys, without their values: nothing is
// known of what they do. A variable that pml's own environment
// gives under the very same name, as in "PATH": "/opt/bin:${PATH}", stays a
// name: it is this user's and no other is meant by it. One that is nothing else
// is left out, and so are empty ones.
func (v *variables) loader(e ServerEntry) (values map[string]string, places []string) {
	for name, text := range e.Env {
		if isKeyName(name) {
			continue
		}
		value, fromFile := v.loaderValue(e, name, text)
		if value == "" || value == "${"+name+"}" || !fromFile && !isLoader(name) {
			continue
		}
		if !isLoader(name) {
			value = fromDotEnv
		}
		if values == nil {
			values = map[string]string{}
		}
		values[name] = value
		if fromFile {
			places = append(places, pointer("/env", name))
		}
	}
	slices.Sort(places)
	return values, places
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
