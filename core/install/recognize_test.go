package install_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/install"
)

func TestRecognize(t *testing.T) {
	t.Parallel()
	npm := func(pkg, rng, bin string, args ...string) install.Spec {
		return install.Spec{Kind: install.KindNPM, Package: pkg, Range: rng, Bin: bin, ServerArgs: args}
	}
	for line, want := range map[string]install.Spec{
		"npx -y @a/b":                    npm("@a/b", "latest", ""),
		"npx --yes @a/b@1.2.3 -y .":      npm("@a/b", "1.2.3", "", "-y", "."),
		"/usr/bin/npx b@^1 -- x":         npm("b", "^1", "", "--", "x"),
		"npx -- b x":                     npm("b", "latest", "", "x"),
		"npx -y -p b@next run --flag":    npm("b", "next", "run", "--flag"),
		"npx --package=@a/b run":         npm("@a/b", "latest", "run"),
		"npx.cmd b":                      npm("b", "latest", ""),
		"cmd /c npx -y b":                npm("b", "latest", ""),
		"npm exec -y b -- --x":           npm("b", "latest", "", "--x"),
		"npm x --package b -- run x":     npm("b", "latest", "run", "x"),
		"npm --loglevel silent exec b":   npm("b", "latest", ""),
		"npx -y -pb@1 run":               npm("b", "1", "run"),
		"env npx -y b":                   npm("b", "latest", ""),
		"bunx b@1 x":                     npm("b", "1", "", "x"),
		"bun x -p b run":                 npm("b", "latest", "run"),
		"pnpm dlx b --x":                 npm("b", "latest", "", "--x"),
		"pnpm --package=b@1 dlx run":     npm("b", "1", "run"),
		"pnpx @a/b":                      npm("@a/b", "latest", ""),
		"yarn dlx -q -p @a/b run x":      npm("@a/b", "latest", "run", "x"),
		"./bin/server -v":                {Kind: install.KindFile, Files: []install.FileRef{{Name: "./bin/server", Role: install.RoleProgram}}, ServerArgs: []string{"-v"}},
		"npx --node-options=--no-warn b": {Kind: install.KindNPM, Package: "b", Range: "latest", NodeArgs: []string{"--no-warn"}},
	} {
		words := strings.Fields(line)
		got, err := install.Recognize(install.Command{Name: "s", Command: words[0], Args: words[1:]})
		if err != nil {
			t.Errorf("%s: %v", line, err)
		}
		if got.CommandDigest == "" {
			t.Errorf("%s: no digest", line)
		}
		got.CommandDigest = ""
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", line, diff)
		}
	}
}

func TestRecognize_OtherKinds(t *testing.T) {
	t.Parallel()
	sha := strings.Repeat("0a", 32)
	for line, want := range map[string]struct {
		kind     install.Kind
		file     string
		unpinned string // part of it
	}{
		"uvx thing":                           {install.KindUVX, "", "write one, as in NAME==1.2.3"},
		"uvx thing==1.2 -x":                   {kind: install.KindUVX},
		"uvx thing@1.2.3":                     {kind: install.KindUVX},
		"uvx thing@latest":                    {install.KindUVX, "", "thing@latest"},
		"uvx --python 3.12 --from a==1 b":     {kind: install.KindUVX},
		"uvx --from=a>=1 b==1":                {install.KindUVX, "", "a>=1"},
		"uvx --from git+https://h/r@v1 b":     {install.KindUVX, "", "no exact version"},
		"uv tool run --with x thing==1":       {kind: install.KindUVX},
		"uv --quiet tool run thing":           {install.KindUVX, "", "thing"},
		"uvx":                                 {install.KindUVX, "", "no package"},
		"pipx run --spec a==1.0 b":            {kind: install.KindUVX},
		"pipx run b":                          {install.KindUVX, "", "the package b"},
		"uv run server.py x":                  {kind: install.KindScript, file: "server.py"},
		"uv --directory /srv run server.py":   {kind: install.KindScript, file: "/srv/server.py"},
		"uv run --directory /srv python s.py": {kind: install.KindScript, file: "/srv/s.py"},
		"uv run --with mcp mcp run server.py": {kind: install.KindOther},
		"uv pip install x":                    {kind: install.KindOther},

		"docker run -i --rm mcp/x":                                      {install.KindDocker, "", "mcp/x@sha256:DIGEST"},
		"docker run -it -e A --name n -v a:b --env=C=1 i@sha256:" + sha: {kind: install.KindDocker},
		"docker run --rm -ie A x:1 y@sha256:" + sha:                     {install.KindDocker, "", "image x:1"},
		"docker run -eA -p 80:80 -- img cmd":                            {install.KindDocker, "", "image img"},
		"docker --context c container run --gpus all img":               {install.KindDocker, "", "image img"},
		"podman run --replace --mount type=bind,src=/a,dst=/b img":      {install.KindDocker, "", "image img"},
		"nerdctl -n ns run img":                                         {install.KindDocker, "", "image img"},
		"docker run --rm":                                               {install.KindDocker, "", "no image"},
		"docker exec -i c prog":                                         {kind: install.KindOther},
		"docker compose run x":                                          {kind: install.KindOther},

		"node x.js":                           {kind: install.KindScript, file: "x.js"},
		"node --no-warnings -r ./a.js x.js y": {kind: install.KindScript, file: "x.js"},
		"node --import tsx --env-file=e x.ts": {kind: install.KindScript, file: "x.ts"},
		"node -- x.js":                        {kind: install.KindScript, file: "x.js"},
		"node -e 1 x.js":                      {kind: install.KindOther},
		"node -pe 1":                          {kind: install.KindOther},
		"node --eval=1 x.js":                  {kind: install.KindOther},
		"node":                                {kind: install.KindOther},
		"node -":                              {kind: install.KindOther},
		"cmd /c node x.js":                    {kind: install.KindScript, file: "x.js"},
		"env A=b C=d node x.js":               {kind: install.KindScript, file: "x.js"},
		"env -i node x.js":                    {kind: install.KindOther},
		"env PATH=/x node x.js":               {kind: install.KindOther},
		"env A=b":                             {kind: install.KindOther},
		"tsx watch x.ts":                      {kind: install.KindScript, file: "x.ts"},
		"ts-node -P t.json x.ts":              {kind: install.KindScript, file: "x.ts"},
		"deno run -A --config c.json x.ts":    {kind: install.KindScript, file: "x.ts"},
		"deno run -A npm:thing":               {install.KindOther, "", "fetched"},
		"deno run https://h/x.ts":             {install.KindOther, "", "fetched"},
		"deno task x":                         {kind: install.KindOther},
		"bun run x.ts":                        {kind: install.KindScript, file: "x.ts"},
		"bun x.js":                            {kind: install.KindScript, file: "x.js"},
		"bun run start":                       {kind: install.KindOther},
		"/v/bin/python3.12 -u -W ignore s.py": {kind: install.KindScript, file: "s.py"},
		"python -Wignore s.py":                {kind: install.KindScript, file: "s.py"},
		"python3 -m server":                   {kind: install.KindOther},
		"python3 -um server x.py":             {kind: install.KindOther},
		"python -c pass":                      {kind: install.KindOther},
		"ruby -I lib -rset s.rb":              {kind: install.KindScript, file: "s.rb"},
		"php -d a=b s.php":                    {kind: install.KindScript, file: "s.php"},
		"php -r code":                         {kind: install.KindOther},
		"java -Xmx512m -jar s.jar x":          {kind: install.KindScript, file: "s.jar"},
		"java -cp a.jar Main":                 {kind: install.KindOther},
		"bash -euo pipefail run.sh":           {kind: install.KindScript, file: "run.sh"},
		"bash -lc x run.sh":                   {kind: install.KindOther},
		"sh run.sh -c":                        {kind: install.KindScript, file: "run.sh"},
		"powershell.exe -Command x":           {kind: install.KindOther},
		"pwsh -NoProfile -File x.ps1":         {kind: install.KindScript, file: "x.ps1"},

		"timeout 60 npx -y b": {install.KindFile, "timeout", "starts npx"},
		"sh -c /usr/bin/npx":  {install.KindOther, "", "starts npx"},
		"npm start":           {kind: install.KindOther},
		"yarn start":          {kind: install.KindOther},
		"cmd /c":              {kind: install.KindOther},
		"my-server --x":       {kind: install.KindFile, file: "my-server"},
		`C:\x\server.exe -v`:  {kind: install.KindFile, file: `C:\x\server.exe`},
	} {
		words := strings.Fields(line)
		got, err := install.Recognize(install.Command{Name: "s", Command: words[0], Args: words[1:]})
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if got.Kind != want.kind || filepath.ToSlash(ran(got)) != want.file || (want.unpinned == "") != (got.Unpinned == "") || !strings.Contains(got.Unpinned, want.unpinned) {
			t.Errorf("%s: %s %q, unpinned %q; want %+v", line, got.Kind, ran(got), got.Unpinned, want)
		}
	}
}

// ran is the script or the program of its own among the files of a command.
func ran(spec install.Spec) string {
	for _, f := range spec.Files {
		if f.Role != install.RoleStarter && (spec.Kind == install.KindScript || spec.Kind == install.KindFile) {
			return f.Name
		}
	}
	return ""
}

func TestRecognize_Refused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ tool, value, want string }{
		{"npx", "--require ./pre.js", "no part of the package"},
		{"npx", "--unheard-of ipv4first", "write --unheard-of=VALUE"},
		{"npx", "--no-warnings evil.js", "evil.js in --node-options is no flag"},
	} {
		_, err := install.Recognize(install.Command{Name: "s", Command: c.tool, Args: []string{"--node-options", c.value, "b"}})
		if core.CodeOf(err) != core.CodeInvalidConfig || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.value, err, c.want)
		}
	}
	if spec, err := install.Recognize(install.Command{Name: "s", Command: "npx", Args: []string{"--node-options=--title t --max-old-space-size=99", "b"}}); err != nil || len(spec.NodeArgs) != 3 {
		t.Error(spec.NodeArgs, err)
	}
	for line, want := range map[string]string{
		"npx":                       "no package",
		"npx -y":                    "no package",
		"npx -c true":               "shell string",
		"npx --wat b":               "--wat is not a flag",
		"npx -p a -p b run":         "more than one",
		"npx -p":                    "needs a value",
		"npx user/repo":             "from git",
		"npx git+https://x/y.git":   "from git",
		"npx ./local":               "a file",
		"npx a@file:../x":           "a file",
		"npx a@npm:b":               "alias",
		"env A=b npx b":             "lost; write them into the env",
		"bunx --bun b":              "leave the flag out",
		"pnpm dlx -c b":             "shell string",
		"yarn dlx ../x":             "the path of its program",
		"npx https://h/x.tgz":       "name its release there",
		"npx b@^1.2.3#x":            "from git",
		"npx b@>=1<2;rm":            "range (^1.2)",
		"npx @scope":                "not the name",
		"npx @a/..":                 "not the name",
		"npm exec b --x":            "write --",
		"npx --registry=http://x b": ".npmrc",

		"npx --node-options=--require=./pre.js b":  "no part of the package",
		"npx --node-options=-r./pre.js b":          "no part of the package",
		"npx --node-options=--import=/abs/x.mjs b": "no part of the package",
		"npx --node-options=--eval=1 b":            "no part of the package",
		"npx --node-options=x.js b":                "is no flag of node",
		"node --unheard-of ipv4first server.js":    "write --unheard-of=VALUE, or -- before",
		"tsx --unheard-of a.ts b.ts":               "server s: --unheard-of is not a flag",
		"ts-node -Z a.ts b.ts":                     "-Z is not a flag",
	} {
		words := strings.Fields(line)
		_, err := install.Recognize(install.Command{Name: "s", Command: words[0], Args: words[1:]})
		if core.CodeOf(err) != core.CodeInvalidConfig || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}

// FuzzRecognize_Any feeds whole command lines: whatever stands there, the answer
// is a kind with what belongs to it, or an error with a code.
func FuzzRecognize_Any(f *testing.F) {
	for _, s := range []string{"docker\x00run\x00-ie\x00A\x00x", "node\x00-r\x00x\x00y.js", "uvx\x00--from\x00a\x00b", "env\x00A=b\x00cmd\x00/c\x00bash\x00-lc", "bun\x00x", "java\x00-jar"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		words := strings.Split(line, "\x00")
		spec, err := install.Recognize(install.Command{Name: "s", Command: words[0], Args: words[1:]})
		if err != nil {
			if core.CodeOf(err) != core.CodeInvalidConfig {
				t.Errorf("%q: %v", line, err)
			}
			return
		}
		hasFile := spec.Kind == install.KindScript || spec.Kind == install.KindFile
		if hasFile != (ran(spec) != "") || (spec.Kind == install.KindNPM) != (spec.Package != "") || spec.CommandDigest == "" {
			t.Errorf("%q: %+v", line, spec)
		}
	})
}

func FuzzRecognize(f *testing.F) {
	for _, s := range []string{"-y\x00a@1", "-p\x00a\x00b", "--\x00@a/b@^1\x00x", "-c\x00x", "../x"} {
		f.Add(s, false)
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, line string, exec bool) {
		args, command := strings.Split(line, "\x00"), "npx"
		if exec {
			command, args = "npm", append([]string{"exec"}, args...)
		}
		spec, err := install.Recognize(install.Command{Name: "s", Command: command, Args: args})
		if err != nil || spec.Kind != install.KindNPM {
			return
		}
		if clean := filepath.Clean(spec.Package); !filepath.IsLocal(spec.Package) || clean != spec.Package || strings.Count(clean, "/") > 1 || strings.HasPrefix(spec.Package, "-") {
			t.Errorf("%q: package %q", line, spec.Package)
		}
		if strings.ContainsAny(spec.Range, ":/\\#") || spec.Range == "" {
			t.Errorf("%q: range %q", line, spec.Range)
		}
	})
}
