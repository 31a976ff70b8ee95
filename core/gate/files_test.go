package gate_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/install"
	"github.com/casys-ai/pml/core/launch"
	"github.com/casys-ai/pml/core/skiptest"
)

// serving makes "fake" a server that a command of the workspace runs; each of the
// files can be executed and becomes the server.
func serving(t *testing.T, files []string, command string, args ...string) *place {
	t.Helper()
	if _, err := os.Stat("/bin/sh"); err != nil {
		skiptest.Missing(t, "there is no /bin/sh")
	}
	p := settle(t, allow)
	for _, name := range files {
		p.program(name, p.serve(""))
	}
	p.runs(command, args...)
	return p.trust().open()
}

// program writes a file that can be executed.
func (p *place) program(name, text string) {
	p.t.Helper()
	if err := os.MkdirAll(filepath.Dir(p.file(name)), 0o700); err != nil {
		p.t.Fatal(err)
	}
	p.write(name, text)
	if err := os.Chmod(p.file(name), 0o700); err != nil {
		p.t.Fatal(err)
	}
}

// runs configures the command of "fake".
func (p *place) runs(command string, args ...string) {
	p.t.Helper()
	list := ""
	for _, a := range args {
		list += fmt.Sprintf(",%q", a)
	}
	p.write(".pml.json", fmt.Sprintf(`{"permissions":%s,"mcpServers":{"fake":{"command":%q,"args":[%s]}}}`, allow, command, strings.TrimPrefix(list, ",")))
}

// serve is a shell script that becomes the fake server.
func (p *place) serve(before string) string {
	return fmt.Sprintf("#!/bin/sh\n%sexec '%s' %s '%s'\n", before, os.Args[0], fakeArg, p.file("../tools.json"))
}

const evil = "echo evil > evil.txt\n"

func (p *place) nothingEvil() {
	p.t.Helper()
	if _, err := os.Stat(p.file("evil.txt")); err == nil {
		p.t.Error("what nobody has agreed to was run")
	}
}

func kindOf(t *testing.T, v engine.Verdict) string {
	t.Helper()
	c, ok := v.Ask[0].Context.(map[string]any)
	if !ok {
		t.Fatalf("%T", v.Ask[0].Context)
	}
	return fmt.Sprint(c["kind"])
}

// A program that the workspace brings is recorded whatever its name: under that
// of an interpreter, of docker, of uvx.
func TestFiles_ProgramsOfTheWorkspace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		command string
		args    []string
	}{
		"interpreter": {".venv/bin/python", []string{"serve.py"}},
		"docker":      {"./docker", []string{"run", "-i", "img"}},
		"uvx":         {"./uvx", []string{"thing==1.0"}},
		"env":         {"./env", []string{"A=b", "node", "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := serving(t, []string{c.command, "serve.py", "x"}, c.command, c.args...)
			p.want("fake:read", "{}", "ok")
			p.program(c.command, p.serve(evil))
			p.up.Stop("fake", p.ws.Dir)
			v := p.want("fake:read", "{}", "integrity")
			if kindOf(t, v) != "file" || !strings.Contains(changed(t, v), filepath.Base(c.command)) {
				t.Errorf("%s %s", kindOf(t, v), changed(t, v))
			}
			p.nothingEvil()
			p.mustApprove(v)
			p.want("fake:read", "{}", "ok")
		})
	}
}

// What an interpreter loads before the script counts as the script does.
func TestFiles_Preload(t *testing.T) {
	t.Parallel()
	p := serving(t, []string{"pre.js", "server.js"}, "node", "-r", "./pre.js", "server.js", fakeArg, "../tools.json")
	p.want("fake:read", "{}", "ok")
	p.write("pre.js", "evil()")
	p.up.Stop("fake", p.ws.Dir)
	v := p.want("fake:read", "{}", "integrity")
	if kindOf(t, v) != "file" || !strings.Contains(changed(t, v), "pre.js sha256:") {
		t.Errorf("%s %s", kindOf(t, v), changed(t, v))
	}
	p.mustApprove(v)
	p.want("fake:read", "{}", "ok")
}

// What NODE_OPTIONS makes node load counts too, for an installed package as well.
func TestFiles_NodeOptions(t *testing.T) {
	t.Parallel()
	p := settle(t, allow)
	p.write("pre.js", "1")
	options := `"env":{"NODE_OPTIONS":"--require ./pre.js"}`
	p.write(".pml.json", fmt.Sprintf(`{"permissions":%s,"mcpServers":{"demo":{"command":"npx","args":["-y","demo",%q,"../tools.json"],%s},
		"fake":{"command":%q,"args":[%q,"../tools.json"],%s}}}`, allow, fakeArg, options, os.Args[0], fakeArg, options))
	p.trust().open()
	p.want("fake:read", "{}", "ok")
	p.mustApprove(p.want("demo:read", "{}", "dependency"))
	if got, v := p.check("demo:read", "{}"); got == "integrity" { // the lock of the package knows of no file yet
		p.mustApprove(v)
	}
	p.want("demo:read", "{}", "ok")
	p.write("pre.js", "evil()")
	for _, name := range []string{"fake", "demo"} {
		p.up.Stop(name, p.ws.Dir)
		v := p.want(name+":read", "{}", "integrity")
		if kindOf(t, v) != "file" || !strings.Contains(changed(t, v), "pre.js") {
			t.Errorf("%s: %s %s", name, kindOf(t, v), changed(t, v))
		}
		p.mustApprove(v)
		p.want(name+":read", "{}", "ok")
	}
}

// A program of the machine gives way to one of the same name in a folder of
// PATH inside of the workspace: nothing was recorded of either.
func TestFiles_ProgramAppears(t *testing.T) {
	t.Parallel()
	p := serving(t, nil, "sh")
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "docker"), []byte(p.serve("")), 0o700); err != nil {
		t.Fatal(err)
	}
	p.write(".pml.json", fmt.Sprintf(`{"permissions":%s,"mcpServers":{"fake":{"command":"docker","args":["run","-i","img"],"env":{"PATH":%q}}}}`,
		allow, p.file("bin")+string(filepath.ListSeparator)+bin))
	p.trust().open().want("fake:read", "{}", "ok")
	p.program("bin/docker", p.serve(evil))
	p.up.Stop("fake", p.ws.Dir)
	if v := p.want("fake:read", "{}", "integrity"); kindOf(t, v) != "file" || !strings.Contains(changed(t, v), "bin/docker") {
		t.Errorf("%+v", v.Ask[0])
	}
	p.nothingEvil()
}

// Who agrees to a command agrees to its file as it was shown, and to no other.
func TestFiles_BoundToTheCommand(t *testing.T) {
	t.Parallel()
	p := serving(t, []string{"a.sh"}, "sh", "a.sh")
	p.want("fake:read", "{}", "ok")
	p.program("b.sh", p.serve("# b\n"))
	p.runs("sh", "b.sh")
	first := p.trust().open().want("fake:read", "{}", "integrity")
	if kindOf(t, first) != "command" || !strings.Contains(changed(t, first), "b.sh") {
		t.Errorf("%s %s", kindOf(t, first), changed(t, first))
	}
	p.program("b.sh", p.serve(evil))
	if again := p.open().want("fake:read", "{}", "integrity"); again.Ask[0].Digest == first.Ask[0].Digest {
		t.Error("the question does not say which file")
	}
	p.mustApprove(first)
	v := p.want("fake:read", "{}", "integrity")
	if kindOf(t, v) != "file" {
		t.Errorf("%+v", v.Ask[0])
	}
	p.nothingEvil()
	// As it was shown it needs no other question.
	p.program("b.sh", p.serve("# b\n"))
	p.open().want("fake:read", "{}", "ok")
}

// Without a pml.lock what this machine remembers counts.
func TestFiles_LockRemoved(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(p *place)
		call   string
		kind   string
	}{
		"nothing": {func(*place) {}, "fake:write", ""},
		"file":    {func(p *place) { p.program("a.sh", p.serve(evil)) }, "fake:write", "file"},
		"command": {func(p *place) { p.program("b.sh", p.serve(evil)); p.runs("sh", "b.sh") }, "fake:write", "command"},
		"tool": {func(p *place) {
			p.write("../tools.json", strings.Replace(tools, "Writes.", "Writes elsewhere.", 1))
		}, "fake:write", "tool"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := serving(t, []string{"a.sh"}, "sh", "a.sh")
			p.want("fake:write", "{}", "ok")
			before, err := os.ReadFile(p.ws.Lock())
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(p.ws.Lock()); err != nil {
				t.Fatal(err)
			}
			c.change(p)
			p.trust().open()
			if c.kind == "" {
				p.want(c.call, "{}", "ok")
				if after, err := os.ReadFile(p.ws.Lock()); err != nil || string(after) != string(before) {
					t.Errorf("the lock was not made again: %s %v", after, err)
				}
				return
			}
			v := p.want(c.call, "{}", "integrity")
			if kindOf(t, v) != c.kind {
				t.Errorf("%+v", v.Ask[0])
			}
			p.nothingEvil()
			if c.kind == "tool" {
				p.want("fake:read", "{}", "ok")
			}
			p.mustApprove(v)
			p.want(c.call, "{}", "ok")
		})
	}
}

// A server that was purged is no memory for one of the same name.
func TestFiles_PurgedIsForgotten(t *testing.T) {
	t.Parallel()
	p := serving(t, []string{"a.sh"}, "sh", "a.sh")
	p.want("fake:read", "{}", "ok")
	p.write(".pml.json", `{"permissions":`+allow+`}`)
	if _, err := p.trust().open().Packages().Purge("fake"); err != nil {
		t.Fatal(err)
	}
	p.program("b.sh", p.serve("# b\n"))
	p.runs("sh", "b.sh")
	p.trust().open().want("fake:read", "{}", "ok")
}

// One workspace lets install scripts run, the other does not: each runs the tree
// that it has agreed to, whichever was installed first.
func TestFiles_InstallScriptsOfAnotherWorkspace(t *testing.T) {
	t.Parallel()
	yes := settle(t, allow)
	yes.npm.scripts = true
	no := placeAt(t, t.TempDir())
	no.home, no.npm = yes.home, yes.npm
	if err := os.MkdirAll(no.ws.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	no.write("../tools.json", tools)
	no.configure(allow)
	yes.trust().open()
	no.trust().open()
	answer := func(p *place, scripts bool) {
		t.Helper()
		a := p.want("demo:read", "{}", "dependency").Ask[0]
		err := p.Apply(t.Context(), core.Approval{ID: "a", Type: a.Type, Subject: a.Subject, Tool: a.Tool, Digest: a.Digest, Answer: &core.Answer{Scripts: scripts}}, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		p.want("demo:read", "{}", "ok")
	}
	runs := func(p *place, scripts bool) {
		t.Helper()
		e := lockOf(t, p).Servers["demo"]
		for _, s := range []bool{true, false} {
			i, ok, err := p.in.Installed(launch.Spec{Kind: launch.KindNPM, Package: "demo", Range: e.Range}, e.Digest, s)
			if err != nil || !ok {
				t.Fatal(s, ok, err)
			}
			users, err := p.in.Users(i)
			if used := strings.Contains(strings.Join(users, " "), p.ws.Dir); err != nil || used != (s == scripts) {
				t.Errorf("tree with scripts %t is used by %q: %v", s, users, err)
			}
		}
	}
	answer(yes, true)
	answer(no, false)
	runs(no, false)
	runs(yes, true)
	no.open().want("demo:read", "{}", "ok")
	yes.open().want("demo:read", "{}", "ok")
	runs(no, false)
	runs(yes, true)
}

func lockOf(t *testing.T, p *place) install.Lock {
	t.Helper()
	lock, err := install.ReadLock(p.ws.Lock())
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

// What a server runs is what was there when the workspace was trusted, not what
// is there when it is first started.
func TestFiles_RecordedWithTrust(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, after func(*place)
		want          string
	}{
		"Same":    {before: func(p *place) { p.program("run.sh", p.serve("")) }, want: "ok"},
		"Changed": {before: func(p *place) { p.program("run.sh", p.serve("")) }, after: func(p *place) { p.program("run.sh", p.serve(evil)) }, want: "integrity"},
		// Nobody has seen it.
		"Appears": {after: func(p *place) { p.program("run.sh", p.serve(evil)) }, want: "integrity"},
		// Another command is another question already; it brings its file.
		"OtherCommand": {before: func(p *place) { p.program("run.sh", p.serve("")) }, after: func(p *place) {
			p.program("other.sh", p.serve(evil))
			p.runs("./other.sh")
			p.trust()
		}, want: "integrity"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := settle(t, allow)
			if c.before != nil {
				c.before(p)
			}
			p.runs("./run.sh")
			p.open()
			if err := p.RememberCommands(); err != nil {
				t.Fatal(err)
			}
			p.trust()
			if c.after != nil {
				c.after(p)
			}
			v := p.open().want("fake:read", `{"n":1}`, c.want)
			p.nothingEvil()
			if c.want == "ok" {
				return
			}
			p.mustApprove(v)
			p.open().want("fake:read", `{"n":1}`, "ok")
		})
	}
}

// A second look changes nothing: what was recorded stays what is compared with.
func TestFiles_TrustedAgain(t *testing.T) {
	t.Parallel()
	p := settle(t, allow)
	p.program("run.sh", p.serve(""))
	p.runs("./run.sh")
	remember := func() {
		t.Helper()
		if err := p.RememberCommands(); err != nil {
			t.Fatal(err)
		}
	}
	p.open()
	remember()
	p.program("run.sh", p.serve(evil))
	remember()
	p.trust().open().want("fake:read", `{"n":1}`, "integrity")
	p.nothingEvil()
}

// A command that gives its code on its line is asked about before it is first
// started, as high risk, whatever was trusted; a lock of somebody else is no yes.
func TestFiles_AnyCode(t *testing.T) {
	t.Parallel()
	line := fmt.Sprintf("%sexec '%s' %s tools.json", evil, os.Args[0], fakeArg)
	p := settle(t, allow)
	p.write("tools.json", tools)
	p.runs("/bin/sh", "-c", line)
	if err := p.open().RememberCommands(); err != nil {
		t.Fatal(err)
	}
	p.trust().open()
	v := p.want("fake:read", `{"n":1}`, "integrity")
	p.nothingEvil()
	ask := v.Ask[0]
	if ask.Risk != core.RiskHigh || !strings.Contains(ask.Description, "runs any code") || !strings.Contains(changed(t, v), "runs any code: sh -c") {
		t.Errorf("%s risk: %s\n%s", ask.Risk, ask.Description, changed(t, v))
	}
	if info := named(t, p.checked("fake"), "fake"); !strings.Contains(info.Warning, "runs any code") {
		t.Errorf("not shown: %+v", info)
	}
	p.mustApprove(v)
	p.open().want("fake:read", `{"n":1}`, "ok")
	p.runs("/bin/sh", "-c", line+" # another")
	p.trust().open().want("fake:read", `{"n":1}`, "integrity")
}
