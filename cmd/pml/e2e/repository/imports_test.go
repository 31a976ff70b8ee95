package repository_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/casys-ai/pml/"

// allowed lists, for each package, the module packages that its production
// files may import; nil means any. A package that is not here fails the test.
var allowed = map[string][]string{
	"core":                      {},
	"core/dag":                  {"core"},
	"core/analyze":              {"core", "core/dag"},
	"core/agent":                {"core", "core/model"},
	"core/engine":               {"core", "core/agent", "core/approval", "core/dag", "core/model", "core/policy", "core/redact", "core/sandbox", "store"},
	"core/engine/enginetest":    {"core", "core/agent", "core/analyze", "core/approval", "core/engine", "core/model", "core/sandbox", "core/skiptest", "store"},
	"core/where":                {"core"},
	"core/policy":               {"core", "core/where"},
	"core/rules":                {"core", "core/policy", "core/where"},
	"core/atomicfile":           {},
	"core/approval":             {"core"},
	"core/sandbox":              {"core"},
	"core/jsonrpc":              {"core"},
	"core/model":                {"core", "core/jsonrpc", "core/redact"},
	"core/upstream":             {"core", "core/jsonrpc"},
	"core/upstream/workspace":   {"core"},
	"core/notify":               {"core"},
	"core/diff":                 {},
	"core/asked":                {"core", "core/diff"},
	"core/jsonc":                {"core"},
	"core/flow":                 {"core", "core/jsonc", "core/where"},
	"core/hook":                 {"core", "core/diff", "core/flow", "core/redact", "core/sandbox", "store"},
	"core/hook/claude":          {"core", "core/flow"},
	"core/launch":               {"core", "core/atomicfile"},
	"core/install":              {"core", "core/atomicfile", "core/diff", "core/jsonc", "core/launch"},
	"core/install/registrytest": {"core"},
	"core/redact":               {"core"},
	"core/env":                  {"core", "core/atomicfile", "core/diff", "core/flow", "core/jsonc", "core/policy", "core/redact"},
	"core/oauth":                {"core", "core/atomicfile"},
	"core/presence":             {"core"},
	"core/live":                 {"core", "core/atomicfile", "core/redact"},
	"core/oauth/oauthtest":      {},
	"core/hosts":                {"core", "core/jsonc"},
	"core/gate":                 {"core", "core/agent", "core/api", "core/asked", "core/atomicfile", "core/engine", "core/jsonrpc", "core/policy", "core/install", "core/launch", "core/env", "core/flow", "core/oauth", "core/redact", "core/upstream", "core/upstream/workspace", "core/where"},
	"core/api":                  {"core"},
	"core/page":                 {"core", "core/api", "core/approval", "core/asked"},
	"core/machine":              {"core", "core/api", "core/daemon", "core/env", "core/gate", "core/install", "core/oauth", "core/presence", "core/redact", "core/upstream", "core/upstream/workspace"},
	"core/audit":                {"core", "core/api", "core/approval", "core/atomicfile", "core/env", "core/machine", "store"},
	"core/setup": {
		"core", "core/api", "core/atomicfile", "core/audit", "core/diff", "core/engine", "core/env", "core/gate", "core/hosts", "core/install", "core/launch", "core/machine", "core/model", "core/notify", "core/oauth",
		"core/policy", "core/redact", "core/rules", "core/sandbox", "store",
	},
	"core/service": {
		"core", "core/agent", "core/api", "core/approval", "core/atomicfile", "core/audit", "core/dag", "core/engine", "core/env", "core/flow", "core/gate", "core/hook", "core/jsonrpc", "core/live", "core/machine", "core/model", "core/notify", "core/policy", "core/redact", "core/sandbox",
		"core/setup", "core/suggest", "core/upstream", "store",
	},
	"core/suggest":                    {"core", "core/api"},
	"core/trace":                      {"core", "core/approval"},
	"core/daemon":                     {"core", "core/api", "core/atomicfile", "core/client"},
	"core/server":                     {"core", "core/approval", "core/api", "core/atomicfile", "core/page"},
	"core/client":                     {"core", "core/api"},
	"core/mcp":                        {"core", "core/api", "core/approval", "core/jsonrpc"},
	"core/proxy":                      {"core", "core/api"},
	"core/route":                      {"core", "core/api", "core/policy"},
	"store":                           {"core"},
	"store/postgres":                  {"core", "store", "core/approval"},
	"store/bolt":                      {"core", "store", "core/approval"},
	"store/temporal":                  {"core", "core/api", "store", "core/approval"}, // a module of its own
	"store/temporal/address":          {"core", "store/temporal"},
	"store/temporal/cmd/pml-temporal": {"core", "core/api", "store", "store/temporal", "store/temporal/address", "cmd/pml/process"},
	"store/backup":                    {"core"},
	"store/storetest":                 {"core", "core/skiptest", "store", "core/approval"},
	"cli/layout":                      {"core"},
	"cli/view":                        {"core", "core/approval", "core/api", "core/asked", "cli/layout"},
	"cli/progress":                    {"core", "cli/layout"},
	"cli/app":                         {"core", "core/api", "cli/layout", "cli/progress"},
	"cli/program":                     {"core", "core/api", "cli/app"},
	"cli/changes":                     {"core", "core/api", "cli/app", "cli/layout", "cli/view"},
	"cli/runs":                        {"core", "core/approval", "core/api", "core/page", "cli/app", "cli/changes", "cli/layout", "cli/program", "cli/view"},
	"cli/servers":                     {"core", "core/approval", "core/api", "cli/app", "cli/changes", "cli/layout", "cli/progress", "cli/view"},
	"cli":                             {"core", "core/api", "core/approval", "core/env", "core/flow", "core/hook/claude", "core/page", "cli/app", "cli/changes", "cli/layout", "cli/program", "cli/runs", "cli/servers", "cli/view", "tui/keys"},
	"tui/noprobe":                     {},
	"tui/paint":                       {},
	"tui/graph":                       {},
	"tui/osc":                         {},
	"tui/keys":                        {"core"},
	"tui/state":                       {"core", "core/flow"},
	"tui/decide":                      {"core", "core/approval"},
	"tui/feed":                        {"core", "core/api", "tui/state"},
	"tui/widget":                      {"core", "tui/graph", "tui/keys", "tui/paint"},
	"tui/evidence":                    {"core", "core/api", "core/approval", "core/asked", "tui/paint", "tui/widget"},
	"tui/screen":                      {"core", "core/approval", "core/api", "core/asked", "core/flow", "tui/decide", "tui/evidence", "tui/flowedit", "tui/graph", "tui/keys", "tui/paint", "tui/state", "tui/widget"},
	"tui/plain":                       {"core", "core/approval", "core/api", "tui/decide", "tui/evidence", "tui/feed", "tui/state"},
	"tui/flowedit":                    {"core", "core/flow", "core/jsonc"},
	"tui/demo":                        {"core", "core/api", "core/approval", "core/flow", "tui/feed", "tui/state"},
	"tui": {
		"core", "core/approval", "core/api", "tui/decide", "tui/feed", "tui/noprobe", "tui/keys", "tui/osc", "tui/paint", "tui/screen", "tui/state",
	},
	"core/skiptest":     {},
	"cmd/pml/gcpercent": {},
	"cmd/pml/pmltest":   nil,
	"cmd/pml/process":   nil, // the one place that puts everything together
	"cmd/pml":           {"cmd/pml/process"},
}

// confined lists import prefixes and the packages that may use each.
var confined = map[string][]string{
	"go.etcd.io/bbolt":                   {"store/bolt"},
	"github.com/gofrs/flock":             {"store/bolt", "core/atomicfile", "core/install", "core/oauth", "core/daemon", "core/presence", "cmd/pml/pmltest"},
	"github.com/jackc/pgx/":              {"store/postgres"},
	"github.com/pressly/goose/":          {"store/postgres"},
	"go.temporal.io/":                    {"store/temporal"},
	"github.com/danielgtaylor/huma/":     {"core/server"},
	"golang.org/x/time/":                 {"core/server"},
	"github.com/prometheus/":             {"core/trace"},
	"go.opentelemetry.io/":               {"core/trace"},
	"gopkg.in/natefinch/lumberjack.v2":   {"cmd/pml/process"},
	"github.com/fsnotify/fsnotify":       {"store/bolt"},
	"modernc.org/quickjs":                {"core/sandbox"},
	"modernc.org/libquickjs":             {"core/sandbox"},
	"github.com/evanw/esbuild/":          {"core/sandbox"},
	"github.com/dop251/goja/":            {"core/analyze"},
	"github.com/expr-lang/expr/":         {"core/where"},
	"github.com/mark3labs/mcp-go/":       {"core/upstream", "core/oauth/oauthtest", "core/mcp"},
	"github.com/santhosh-tekuri/":        {"core/upstream"},
	"github.com/spf13/cobra":             {"cli", "cli/app", "cli/changes", "cli/runs", "cli/servers"},
	"github.com/goccy/go-yaml":           {"cli/program"},
	"rsc.io/qr":                          {"cli"},
	"golang.org/x/term":                  {"cmd/pml/process", "cmd/pml/pmltest"},
	"golang.org/x/oauth2":                {"core/oauth"},
	"golang.org/x/crypto/":               {"core/setup"},
	"github.com/joho/godotenv":           {"core/env"},
	"github.com/tailscale/hujson":        {"core/jsonc"},
	"github.com/pelletier/go-toml/":      {"core/hosts"},
	"github.com/modelcontextprotocol/":   {},
	"github.com/google/uuid":             {"cmd/pml/process", "core/service", "core/engine/enginetest"},
	"testing":                            {"store/storetest", "core/engine/enginetest", "core/install/registrytest", "core/skiptest", "cmd/pml/pmltest"},
	"github.com/google/go-cmp/":          {"store/storetest"},
	"pgregory.net/rapid":                 {"store/storetest"},
	"go.uber.org/goleak":                 {},
	"github.com/charmbracelet/bubbletea": {"tui"},
	"github.com/charmbracelet/lipgloss":  {"tui/noprobe", "tui/paint"},
	"github.com/charmbracelet/x/ansi":    {"tui", "tui/osc"},
	"github.com/muesli/termenv":          {"tui", "tui/paint"},
	"github.com/rivo/uniseg":             {"cli/layout", "tui/paint"},
	"github.com/hinshun/vt10x":           {"cmd/pml/pmltest"},
	"github.com/creack/pty":              {"cmd/pml/pmltest"},
	"github.com/rogpeppe/go-internal/":   {},
}

// pure lists packages that import nothing but core and the standard library.
var pure = []string{"core", "core/dag", "core/policy", "core/api", "core/approval", "store"}

func TestImports(t *testing.T) {
	t.Parallel()
	eachFile(t, func(file string, test bool) {
		pkg := path.Dir(file)
		if test || pkg == "." {
			return
		}
		rule, ok := allowed[pkg]
		if !ok {
			t.Errorf("%s: no import rule for %s; add one to imports_test.go", file, pkg)
			return
		}
		for _, imp := range importsOf(t, file) {
			if why := refused(pkg, imp, rule); why != "" {
				t.Errorf("%s: %s", file, why)
			}
		}
	})
}

// refused says why a package may not import something, "" if it may.
func refused(pkg, imp string, rule []string) string {
	for prefix, owners := range confined {
		if under(imp, prefix) && !slices.Contains(owners, pkg) {
			return pkg + " must not import " + imp + "; it is confined to " + strings.Join(owners, ", ")
		}
	}
	dep, inModule := strings.CutPrefix(imp, module)
	host, _, _ := strings.Cut(imp, "/")
	if !inModule && strings.Contains(host, ".") && slices.Contains(pure, pkg) {
		return pkg + " must not import " + imp + ": it imports the standard library only"
	}
	if inModule && rule != nil && !slices.Contains(rule, dep) {
		return pkg + " must not import " + dep
	}
	return ""
}

// under reports whether an import path is a prefix itself or inside of it.
func under(imp, prefix string) bool {
	p := strings.TrimSuffix(prefix, "/")
	return imp == p || strings.HasPrefix(imp, p+"/")
}

func TestImports_Refused(t *testing.T) {
	t.Parallel()
	tests := []struct {
		pkg, imp string
		refused  bool
	}{
		{"core", "encoding/json", false},
		{"core", "github.com/google/uuid", true},
		{"core", module + "core/api", true},
		{"core/dag", module + "core", false},
		{"core/dag", "golang.org/x/sync/errgroup", true},
		{"core/analyze", "github.com/dop251/goja/parser", false},
		{"core/sandbox", "github.com/dop251/goja/parser", true},
		{"store/bolt", "go.etcd.io/bbolt", false},
		{"cli", "go.etcd.io/bbolt/errors", true},
		{"cli", module + "store", true},
		{"cmd/pml/process", module + "store/bolt", false},
		{"cmd/pml", module + "store/bolt", true},
		{"core/service", module + "store/bolt", true},
		{"core/env", "testing", true},
		{"core/env", "testing/fstest", true},
	}
	for _, tt := range tests {
		if why := refused(tt.pkg, tt.imp, allowed[tt.pkg]); (why != "") != tt.refused {
			t.Errorf("%s importing %s: refused = %q, want refused %v", tt.pkg, tt.imp, why, tt.refused)
		}
	}
}

// eachFile calls f for every Go file of the module that the go command would
// build, with a slash-separated path from the root.
func eachFile(t *testing.T, f func(file string, test bool)) {
	t.Helper()
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if name == "testdata" || file != "." && strings.HasPrefix(name, ".") {
				return filepath.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(name, ".go") {
			f(filepath.ToSlash(file), strings.HasSuffix(name, "_test.go"))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func importsOf(t *testing.T, file string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	imports := make([]string, 0, len(f.Imports))
	for _, spec := range f.Imports {
		imp, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		imports = append(imports, imp)
	}
	return imports
}
