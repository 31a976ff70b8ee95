package launch_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/launch"
)

func TestRecognize(t *testing.T) {
	t.Parallel()
	npm := func(pkg, rng, bin string, args ...string) launch.Spec {
		return launch.Spec{Kind: launch.KindNPM, Package: pkg, Range: rng, Bin: bin, ServerArgs: args}
	}
	for line, want := range map[string]launch.Spec{
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
		"./bin/server -v":                {Kind: launch.KindFile, Files: []launch.FileRef{{Name: "./bin/server", Role: launch.RoleProgram}}, ServerArgs: []string{"-v"}},
		"npx --node-options=--no-warn b": {Kind: launch.KindNPM, Package: "b", Range: "latest", NodeArgs: []string{"--no-warn"}},
	} {
		words := strings.Fields(line)
		got, err := launch.Recognize(launch.Command{Name: "s", Command: words[0], Args: words[1:]})
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
		kind     launch.Kind
		file     string
		unpinned string // part of it
	}{
		"uvx thing":                           {launch.KindUVX, "", "write one, as in NAME==1.2.3"},
		"uvx thing==1.2 -x":                   {kind: launch.KindUVX},
		"uvx thing@1.2.3":                     {kind: launch.KindUVX},
		"uvx thing@latest":                    {launch.KindUVX, "", "thing@latest"},
		"uvx --python 3.12 --from a==1 b":     {kind: launch.KindUVX},
		"uvx --from=a>=1 b==1":                {launch.KindUVX, "", "a>=1"},
		"uvx --from git+https://h/r@v1 b":     {launch.KindUVX, "", "no exact version"},
		"uv tool run --with x thing==1":       {kind: launch.KindUVX, unpinned: "x of --with"},
		"uv --quiet tool run thing":           {launch.KindUVX, "", "thing"},
		"uvx":                                 {launch.KindUVX, "", "no package"},
		"pipx run --spec a==1.0 b":            {kind: launch.KindUVX},
		"pipx run b":                          {launch.KindUVX, "", "the package b"},
		"uv run server.py x":                  {kind: launch.KindScript, file: "server.py"},
		"uv --directory /srv run server.py":   {kind: launch.KindScript, file: "/srv/server.py"},
		"uv run --directory /srv python s.py": {kind: launch.KindScript, file: "/srv/s.py"},
		"uv run --with mcp mcp run server.py": {kind: launch.KindOther, unpinned: "mcp of --with"},
		"uv run --with=mcp==1.2.3,b m":        {kind: launch.KindOther, unpinned: "b of --with"},
		"uv run --with mcp==1.2.3 mcp":        {kind: launch.KindOther},
		"uv run --with a server.py":           {kind: launch.KindScript, file: "server.py", unpinned: "a of --with"},
		"uvx --with a b==1.2.3":               {kind: launch.KindUVX, unpinned: "a of --with"},
		"uv pip install x":                    {kind: launch.KindOther},

		"docker run -i --rm mcp/x":                                      {launch.KindDocker, "", "mcp/x@sha256:DIGEST"},
		"docker run -it -e A --name n -v a:b --env=C=1 i@sha256:" + sha: {kind: launch.KindDocker},
		"docker run --rm -ie A x:1 y@sha256:" + sha:                     {launch.KindDocker, "", "image x:1"},
		"docker run -eA -p 80:80 -- img cmd":                            {launch.KindDocker, "", "image img"},
		"docker --context c container run --gpus all img":               {launch.KindDocker, "", "image img"},
		"podman run --replace --mount type=bind,src=/a,dst=/b img":      {launch.KindDocker, "", "image img"},
		"nerdctl -n ns run img":                                         {launch.KindDocker, "", "image img"},
		"docker run --rm":                                               {launch.KindDocker, "", "no image"},
		"docker exec -i c prog":                                         {kind: launch.KindOther},
		"docker compose run x":                                          {kind: launch.KindOther},

		"node x.js":                           {kind: launch.KindScript, file: "x.js"},
		"node --no-warnings -r ./a.js x.js y": {kind: launch.KindScript, file: "x.js"},
		"node --import tsx --env-file=e x.ts": {kind: launch.KindScript, file: "x.ts"},
		"node -- x.js":                        {kind: launch.KindScript, file: "x.js"},
		"node -e 1 x.js":                      {kind: launch.KindOther},
		"node -pe 1":                          {kind: launch.KindOther},
		"node --eval=1 x.js":                  {kind: launch.KindOther},
		"node":                                {kind: launch.KindOther},
		"node -":                              {kind: launch.KindOther},
		"cmd /c node x.js":                    {kind: launch.KindScript, file: "x.js"},
		"env A=b C=d node x.js":               {kind: launch.KindScript, file: "x.js"},
		"env -i node x.js":                    {kind: launch.KindOther},
		"env PATH=/x node x.js":               {kind: launch.KindOther},
		"env A=b":                             {kind: launch.KindOther},
		"tsx watch x.ts":                      {kind: launch.KindScript, file: "x.ts"},
		"ts-node -P t.json x.ts":              {kind: launch.KindScript, file: "x.ts"},
		"deno run -A --config c.json x.ts":    {kind: launch.KindScript, file: "x.ts"},
		"deno run -A npm:thing":               {launch.KindOther, "", "fetched"},
		"deno run https://h/x.ts":             {launch.KindOther, "", "fetched"},
		"deno task x":                         {kind: launch.KindOther},
		"bun run x.ts":                        {kind: launch.KindScript, file: "x.ts"},
		"bun x.js":                            {kind: launch.KindScript, file: "x.js"},
		"bun run start":                       {kind: launch.KindOther},
		"/v/bin/python3.12 -u -W ignore s.py": {kind: launch.KindScript, file: "s.py"},
		"python -Wignore s.py":                {kind: launch.KindScript, file: "s.py"},
		"python3 -m server":                   {kind: launch.KindOther},
		"python3 -um server x.py":             {kind: launch.KindOther},
		"python -c pass":                      {kind: launch.KindOther},
		"ruby -I lib -rset s.rb":              {kind: launch.KindScript, file: "s.rb"},
		"php -d a=b s.php":                    {kind: launch.KindScript, file: "s.php"},
		"php -r code":                         {kind: launch.KindOther},
		"java -Xmx512m -jar s.jar x":          {kind: launch.KindScript, file: "s.jar"},
		"java -cp a.jar Main":                 {kind: launch.KindOther},
		"bash -euo pipefail run.sh":           {kind: launch.KindScript, file: "run.sh"},
		"bash -lc x run.sh":                   {kind: launch.KindOther},
		"sh run.sh -c":                        {kind: launch.KindScript, file: "run.sh"},
		"powershell.exe -Command x":           {kind: launch.KindOther},
		"pwsh -NoProfile -File x.ps1":         {kind: launch.KindScript, file: "x.ps1"},

		"timeout 60 npx -y b": {launch.KindFile, "timeout", "starts npx"},
		"sh -c /usr/bin/npx":  {launch.KindOther, "", "starts npx"},
		"npm start":           {kind: launch.KindOther},
		"yarn start":          {kind: launch.KindOther},
		"cmd /c":              {kind: launch.KindOther},
		"my-server --x":       {kind: launch.KindFile, file: "my-server"},
		`C:\x\server.exe -v`:  {kind: launch.KindFile, file: `C:\x\server.exe`},
	} {
		words := strings.Fields(line)
		got, err := launch.Recognize(launch.Command{Name: "s", Command: words[0], Args: words[1:]})
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
func ran(spec launch.Spec) string {
	for _, f := range spec.Files {
		if f.Role != launch.RoleStarter && (spec.Kind == launch.KindScript || spec.Kind == launch.KindFile) {
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
		_, err := launch.Recognize(launch.Command{Name: "s", Command: c.tool, Args: []string{"--node-options", c.value, "b"}})
		if core.CodeOf(err) != core.CodeInvalidConfig || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.value, err, c.want)
		}
	}
	if spec, err := launch.Recognize(launch.Command{Name: "s", Command: "npx", Args: []string{"--node-options=--title t --max-old-space-size=99", "b"}}); err != nil || len(spec.NodeArgs) != 3 {
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
		_, err := launch.Recognize(launch.Command{Name: "s", Command: words[0], Args: words[1:]})
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
		spec, err := launch.Recognize(launch.Command{Name: "s", Command: words[0], Args: words[1:]})
		if err != nil {
			if core.CodeOf(err) != core.CodeInvalidConfig {
				t.Errorf("%q: %v", line, err)
			}
			return
		}
		hasFile := spec.Kind == launch.KindScript || spec.Kind == launch.KindFile
		if hasFile != (ran(spec) != "") || (spec.Kind == launch.KindNPM) != (spec.Package != "") || spec.CommandDigest == "" {
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
		spec, err := launch.Recognize(launch.Command{Name: "s", Command: command, Args: args})
		if err != nil || spec.Kind != launch.KindNPM {
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

// Code on the command line is told from a file, a package and a module: whoever
// writes such a line has the machine run anything.
func TestRecognize_AnyCode(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"sh -c x":                       "sh -c",
		"/bin/bash -lc x":               "bash -lc",
		"bash -euo pipefail -c x":       "bash -c",
		"zsh -o shwordsplit -c x":       "zsh -c",
		"node -e 1":                     "node -e",
		"node --no-warnings --eval=1":   "node --eval",
		"node -r ./x.js -p 1":           "node -p",
		"node --run start":              "node --run",
		"python3.12 -c pass":            "python3.12 -c",
		"python -Ic pass":               "python -Ic",
		"perl -MFoo -e 1":               "perl -e",
		"ruby -rx -e 1":                 "ruby -e",
		"php -r 1":                      "php -r",
		"bun -e 1":                      "bun -e",
		"deno eval 1":                   "deno eval",
		"bun exec x":                    "bun exec",
		"sqlite3 :memory: .shell":       "sqlite3",
		"deno task start":               "deno task",
		"pwsh -NoProfile -Command x":    "pwsh -Command",
		"powershell.exe -enc x":         "powershell -enc",
		"powershell -EncodedCommand x":  "powershell -EncodedCommand",
		"nohup sh -c x":                 "sh -c",
		"timeout 5 env A=b python -c x": "python -c",
		"busybox sh -c x":               "sh -c",
		"sudo -u me bash -c x":          "bash -c",
		"env -S sh":                     "env -S",
		"cmd /c a.exe & b.exe":          "cmd",
		"lua -e 1":                      "lua -e",
		"awk 1":                         "awk",
		"npm start":                     "npm start",
		"uv run python -c 1":            "python -c",
		"docker run i sh -c x":          "sh -c",
		"script -qc x /dev/null":        "script -qc",
		"su -lc x":                      "su -lc",
		"git -c alias.x=!y x":           "git -c",
		"sed -n 1ey s.js":               "sed",
		"node --import data:,1 x.js":    "node data:",
		"node --import=DATA:,1 x.js":    "node data:",
		"deno run data:,1":              "deno data:",

		"find . -exec sh x ;":          "find -exec",
		"find . -type f -execdir x ;":  "find -execdir",
		"find . -ok rm {} ;":           "find -ok",
		"find . -name x -delete":       "find -delete",
		"fd -x rm":                     "fd -x",
		"xargs ./server":               "xargs",
		"xargs -n1 sh -c x":            "xargs",
		"ssh host server":              "ssh",
		"env -i ./server":              "env",
		"env -u X node x.js":           "env",
		"timeout -k 5 9 ./server":      "timeout",
		"timeout 60 npx -y b":          "timeout",
		"nice -10x ./server":           "nice",
		"flock /tmp/l node x.js":       "flock",
		"sudo node x.js":               "sudo",
		"gawk -f x.awk":                "gawk",
		"perl -ne 1":                   "perl -ne",
		"perl -E 1":                    "perl -E",
		"ruby -ne 1":                   "ruby -ne",
		"php -R 1":                     "php -R",
		"bun --eval 1":                 "bun --eval",
		"busybox httpd":                "busybox",
		"watch -n1 ./x":                "watch",
		"make":                         "make",
		"/usr/bin/make -C sub serve":   "make",
		"nohup make serve":             "make",
		"just serve":                   "just",
		"go run ./cmd/x":               "go run",
		"cargo run --release":          "cargo run",
		"poetry run python s.py":       "poetry run",
		"docker exec c ./server":       "docker exec",
		"docker run -i i /bin/sh -c x": "sh -c",
		"tar --to-command=x -xf y":     "tar --to-command",
		"socat - EXEC:x":               "socat",
		"nc -e sh h 1":                 "nc",

		"nice -n 5 node x.js -e 1":           "",
		"timeout --signal=KILL 5m node x.js": "",
		"timeout 60 ./server find":           "",
		"find . -name x":                     "",
		"go version run":                     "",
		"docker run i make":                  "",
		"sh run.sh -c x":                     "",
		"node x.js -e 1":                     "",
		"node x.js data:,1":                  "",
		"node --import ./a.js x.js":          "",
		"node -r ./a.js x.js -e 1":           "",
		"python -m server -c x":              "",
		"python3 -W ignore s.py -c x":        "",
		"python -u - -c x":                   "",
		"nohup node x.js -e 1":               "",
		"npx -y thing -c x":                  "",
		"uvx thing==1.2 -c x":                "",
		"docker run i server -c x":           "",
		"./server -c x -e y":                 "",
		"/usr/bin/server --shell=sh":         "",
		"java -jar s.jar -c x":               "",
	} {
		words := strings.Fields(line)
		got, err := launch.Recognize(launch.Command{Name: "s", Command: words[0], Args: words[1:]})
		if err != nil || got.AnyCode != want {
			t.Errorf("%s: %q %v, want %q", line, got.AnyCode, err, want)
		}
	}
}

// What plain starters start is found and hashed as if it stood there alone.
func TestRecognize_Started(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"nohup node x.js":                 "nohup node x.js",
		"timeout 60 node x.js":            "timeout node x.js",
		"nice -n 5 nohup python3 s.py":    "nice nohup python3 s.py",
		"env A=b timeout 5 ./server -v":   "env timeout ./server",
		"setsid ./server":                 "setsid ./server",
		"timeout --foreground 5s node x":  "timeout node x",
		"timeout 60 npx -y b":             "timeout",
		"nice -n 5 npx -y b":              "nice",
		"timeout --kill-after 5 9 node x": "timeout",
	} {
		words := strings.Fields(line)
		spec, err := launch.Recognize(launch.Command{Name: "s", Command: words[0], Args: words[1:]})
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		var names []string
		for _, f := range spec.Files {
			names = append(names, f.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
