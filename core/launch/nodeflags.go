package launch

import (
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
)

// nodeValues are node's flags whose value may be the next argument.
var nodeValues = strings.Fields(`
	--allow-fs-read --allow-fs-write --build-snapshot-config -C --conditions --cpu-prof-dir --cpu-prof-interval --cpu-prof-name
	--diagnostic-dir --disable-proto --disable-warning --dns-result-order --env-file --env-file-if-exists --experimental-default-type
	--experimental-sea-config --heap-prof-dir --heap-prof-interval --heap-prof-name --heapsnapshot-near-heap-limit
	--heapsnapshot-signal --icu-data-dir --debug-port --inspect-port --input-type --inspect-publish-uid --localstorage-file
	--max-http-header-size --network-family-autoselection-attempt-timeout --redirect-warnings --report-dir --report-directory
	--report-filename --report-signal --secure-heap --secure-heap-min --stack-trace-limit --test-concurrency
	--test-name-pattern --test-reporter --test-reporter-destination --test-shard --test-timeout --title --tls-cipher-list
	--tls-keylog --trace-event-categories --trace-event-file-pattern --trace-require-module --unhandled-rejections --use-largepages
	--v8-pool-size --watch-path`)

// nodeSwitches are node's flags that never take the next argument, beside all
// that begin with --no-.
var nodeSwitches = strings.Fields(`
	--abort-on-uncaught-exception --allow-addons --allow-child-process --allow-net --allow-wasi --allow-worker -c --check --cpu-prof
	--disable-wasm-trap-handler --disallow-code-generation-from-strings --enable-etw-stack-walking --enable-fips --enable-network-family-autoselection
	--enable-source-maps --expose-gc --expose-internals --experimental-abortcontroller --experimental-detect-module --experimental-eventsource
	--experimental-fetch --experimental-global-webcrypto --experimental-import-meta-resolve --experimental-json-modules
	--experimental-network-imports --experimental-network-inspection --experimental-permission --experimental-print-required-tla
	--experimental-require-module --experimental-sqlite --experimental-strip-types --experimental-test-coverage
	--experimental-test-module-mocks --experimental-transform-types --experimental-vm-modules --experimental-wasm-modules
	--experimental-websocket --experimental-webstorage --experimental-worker --force-context-aware --force-fips
	--force-node-api-uncaught-exceptions-policy --frozen-intrinsics --harmony --heap-prof --inspect --inspect-brk --inspect-wait
	--insecure-http-parser --interpreted-frames-native-stack --jitless --node-memory-debug --openssl-legacy-provider
	--openssl-shared-config --pending-deprecation --permission --preserve-symlinks --preserve-symlinks-main --prof --prof-process
	--report-compact --report-exclude-env --report-exclude-network --report-on-fatalerror --report-on-signal --report-uncaught-exception
	--throw-deprecation --tls-max-v1.2 --tls-max-v1.3 --tls-min-v1.0 --tls-min-v1.1 --tls-min-v1.2 --tls-min-v1.3 --trace-atomics-wait
	--trace-deprecation --trace-exit --trace-promises --trace-sigint --trace-sync-io --trace-tls --trace-uncaught --trace-warnings
	--track-heap-objects --use-bundled-ca --use-openssl-ca --use-system-ca --v8-options -v --version -h --help --watch
	--watch-preserve-output --zero-fill-buffers`)

// nodeLoads are node's flags that name a module which is loaded first.
var nodeLoads = []string{"-r", "--require", "--import", "--loader", "--experimental-loader", "--preload"}

// nodeReads are node's flags that name a file which decides what is run.
var nodeReads = []string{"--openssl-config", "--snapshot-blob", "--experimental-config-file", "--experimental-policy"}

var nodeCode = []string{"-e", "--eval", "-p", "--print", "-pe", "--run", "--test", "--test-only", "-i", "--interactive", "--build-snapshot", "-"}

var nodeLike = interpreter{
	value: nodeValues, loads: nodeLoads, reads: nodeReads, code: nodeCode, switches: nodeSwitches, strict: true, role: RoleNode,
}

var tsx = interpreter{
	subs:  []string{"watch"},
	value: slices.Concat(nodeValues, []string{"--ignore", "--exclude", "--include"}),
	loads: nodeLoads, reads: slices.Concat(nodeReads, []string{"--tsconfig"}), code: nodeCode,
	switches: slices.Concat(nodeSwitches, []string{"--clear-screen"}), strict: true, role: RoleTypeScript,
}

var tsNode = interpreter{
	value: []string{
		"-O", "--compiler-options", "-C", "--compiler", "-I", "--ignore", "-D", "--ignore-diagnostics", "--scope-dir",
		"--ignoreDiagnostics", "--compilerOptions", "--scopeDir", "--experimental-specifier-resolution",
	},
	loads: []string{"-r", "--require"}, reads: []string{"-P", "--project"}, folder: []string{"--cwd"},
	code: []string{"-e", "--eval", "-p", "--print", "-i", "--interactive", "-"},
	switches: []string{
		"--esm", "--swc", "-T", "--transpile-only", "--transpileOnly", "--files", "-H", "--compiler-host", "--compilerHost", "--log-error",
		"--logError", "--prefer-ts-exts", "--preferTsExts", "--pretty", "--skip-project", "--skipProject", "--skip-ignore", "--skipIgnore",
		"-s", "--script-mode", "--scriptMode", "--script-mode-cwd", "--cwd-mode", "--cwdMode", "--show-config", "--showConfig", "--type-check",
		"--typecheck", "--emit", "--scope", "-v", "-vv", "-h", "--help", "--version",
	},
	strict: true, role: RoleTypeScript,
}

// checkNodeOptions refuses flags of --node-options that make node run something
// that is not part of the installed package: they would be looked for wherever
// the server is started.
func checkNodeOptions(words []string) error {
	for n := 0; n < len(words); n++ {
		word := words[n]
		what, _, inline := nodeLike.flag(word)
		follows := n+1 < len(words) && !strings.HasPrefix(words[n+1], "-")
		shown := core.Visible(word, 80, false)
		switch {
		case !strings.HasPrefix(word, "-") || word == "--":
			return core.Errorf(core.CodeInvalidConfig, "%s in --node-options is no flag of node", shown)
		case what == isCode, what == isLoad, what == isRead:
			return core.Errorf(core.CodeInvalidConfig, "%s in --node-options runs something that is no part of the package; leave it out, or install the package into a folder of your own and write node and the path of its program", shown)
		case what == isUnknown && follows:
			return core.Errorf(core.CodeInvalidConfig, "%s in --node-options is not a flag that pml knows; write %s=VALUE", shown, shown)
		case what == isValue && !inline && follows:
			n++
		}
	}
	return nil
}

// nodeOptionFiles are the files that NODE_OPTIONS makes each node of a command
// load. What runs in a container does not have this environment.
func nodeOptionFiles(spec Spec, env []string) []FileRef {
	value, ok := Variable(env, "NODE_OPTIONS")
	if !ok || spec.Kind == KindDocker {
		return nil
	}
	p := scriptArgs{interpreter: nodeLike}
	words := nodeOptionWords(value)
	for n := 0; n < len(words); n++ {
		what, value, inline := p.flag(words[n])
		if what != isLoad && what != isRead {
			continue
		}
		if !inline && n+1 < len(words) {
			n++
			value = words[n]
		}
		p.load(value, what)
	}
	return p.preloads
}

// nodeOptionWords takes NODE_OPTIONS apart as node does: at spaces, except in
// double quotes, in which a backslash keeps the next character.
func nodeOptionWords(value string) []string {
	var words []string
	var word strings.Builder
	quoted, any := false, false
	end := func() {
		if any {
			words = append(words, word.String())
		}
		word.Reset()
		any = false
	}
	for i := 0; i < len(value); i++ {
		c := value[i]
		switch {
		case c == '\\' && quoted && i+1 < len(value):
			i++
			word.WriteByte(value[i])
		case c == '"':
			quoted, any = !quoted, true
		case c == ' ' && !quoted:
			end()
		default:
			word.WriteByte(c)
			any = true
		}
	}
	end()
	return words
}
