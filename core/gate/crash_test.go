//go:build unix

package gate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	_ "unsafe" // for the link to atomicfile's hook, which is not for other packages

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/install"
	"github.com/casys-ai/pml/core/skiptest"
)

//go:linkname replaced github.com/casys-ai/pml/core/atomicfile.replaced
var replaced func(name string)

// doomed is a process that is killed right after it has replaced its n-th file.
type doomed struct {
	Root, Deed string
	N          int
}

// deed is something that a person approves. It is killed after each file that
// it replaces, and looked at by another process then.
type deed struct {
	prepare func(p *place) // what was there before
	do      func(p *place) // it says when a person has said yes
	// was and is are what is asked for what the deed is about, before and after.
	// between is asked instead when it was killed half-way: it is asked again.
	call             string
	was, is, between string
	after            func(p *place, agreed bool) // what must hold besides, whenever it was killed
}

// agreed is said, to the process that watches, before anything is approved.
func agreed() { fmt.Println("\nagreed") }

var deeds = map[string]deed{
	"install": {
		prepare: func(p *place) { p.trust() },
		do: func(p *place) {
			v := p.want("demo:write", "{}", "dependency")
			agreed()
			p.mustApprove(v)
			p.want("demo:write", "{}", "ok")
		},
		call: "demo:write", was: "dependency", is: "ok",
	},
	"update": {
		prepare: func(p *place) {
			p.trust().open()
			p.mustApprove(p.want("demo:write", "{}", "dependency"))
			p.want("demo:write", "{}", "ok")
		},
		do: func(p *place) {
			p.npm.version = "2.0.0"
			u, err := p.Packages().Update(p.t.Context(), api.UpdateRequest{Name: "demo"}, func(string) {})
			if err == nil {
				agreed()
				u, err = p.Packages().Update(p.t.Context(), api.UpdateRequest{Name: "demo", Digest: u.Digest}, func(string) {})
			}
			if err != nil || !u.Installed {
				p.t.Fatalf("%+v %v", u, err)
			}
		},
		call: "demo:write", was: "ok", is: "ok", between: "dependency",
		after: func(p *place, agreed bool) {
			lock, err := install.ReadLock(p.ws.Lock())
			if v := lock.Servers["demo"].Version; err != nil || v != "1.2.3" && !agreed {
				p.t.Errorf("%s is pinned, which nobody has approved: %v", v, err)
			}
		},
	},
	"tool": {
		prepare: func(p *place) {
			p.trust().open().want("fake:write", "{}", "ok")
			p.write("../tools.json", strings.NewReplacer("Writes.", "Writes more.", "Fails.", "Fails more.").Replace(tools))
		},
		do: func(p *place) {
			v := p.want("fake:write", "{}", "integrity")
			agreed()
			p.mustApprove(v)
		},
		call: "fake:write", was: "integrity", is: "ok",
		after: func(p *place, _ bool) { p.want("fake:fail", "{}", "integrity") },
	},
	"command": {
		prepare: func(p *place) {
			p.trust().open().want("fake:write", "{}", "ok")
			p.configure(allow, "--more")
			p.trust()
		},
		do: func(p *place) {
			v := p.want("fake:write", "{}", "integrity")
			agreed()
			p.mustApprove(v)
		},
		call: "fake:write", was: "integrity", is: "ok",
	},
	"rule": {
		prepare: func(p *place) {
			p.configure(`{"allow":["fake:read"]}`)
			p.trust().open().want("fake:read", "{}", "ok")
		},
		do: func(p *place) {
			p.want("fake:write", "{}", "tool_permission")
			agreed()
			if err := p.remember("fake:write", core.RememberRule); err != nil {
				p.t.Fatal(err)
			}
		},
		call: "fake:write", was: "tool_permission", is: "ok",
		after: func(p *place, _ bool) { p.want("fake:fail", "{}", "tool_permission") },
	},
}

// doom is what the process does that is killed.
func doom(t *testing.T, raw string) {
	var d doomed
	if err := json.Unmarshal([]byte(raw), &d); err != nil {
		t.Fatal(err)
	}
	p := placeAt(t, d.Root).open()
	var count atomic.Int64
	replaced = func(name string) {
		if count.Add(1) == int64(d.N) {
			fmt.Println("\nkilled after " + name)
			if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
				t.Error(err)
			}
			select {} // nothing more is done
		}
	}
	deeds[d.Deed].do(p)
	fmt.Println("\ndone")
}

// A kill after any file that the gates replace: nothing runs that nobody has
// approved, the workspace stays trusted, nothing is taken for changed, and what
// was approved is at worst asked again.
func TestCrash_AfterEachFile(t *testing.T) {
	if raw := os.Getenv("GATE_TEST_DOOMED"); raw != "" {
		doom(t, raw)
		return
	}
	t.Parallel()
	skiptest.Short(t, "kills a process after each file that it writes")
	for name, d := range deeds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := 1; ; n++ {
				if n > 60 {
					t.Fatal("it never comes to its end")
				}
				if crash(t, name, d, n) {
					if n < 3 {
						t.Errorf("done after %d files: nothing was killed", n-1)
					}
					return
				}
			}
		})
	}
}

// crash does a deed in a process that is killed after n files, and looks at what
// is left. It reports whether the deed was done before.
func crash(t *testing.T, name string, d deed, n int) (done bool) {
	t.Helper()
	p := settle(t, allow)
	d.prepare(p)
	if p.stop != nil {
		p.stop()
	}
	raw, err := json.Marshal(doomed{Root: filepath.Dir(p.ws.Dir), Deed: name, N: n})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestCrash_AfterEachFile$")
	cmd.Env = append(os.Environ(), "GATE_TEST_DOOMED="+string(raw), "GORACE=atexit_sleep_ms=0")
	cmd.WaitDelay = 5 * time.Second // for servers that hold its streams
	out, err := cmd.CombinedOutput()
	said := string(out)
	done = strings.Contains(said, "\ndone")
	if done != (err == nil) || !done && !strings.Contains(said, "\nkilled after ") {
		t.Fatalf("%d: %v\n%s", n, err, said)
	}
	t.Logf("%d: %s", n, strings.TrimSpace(said))

	p.open().want("fake:read", "{}", "ok") // trusted, and asked for nothing
	got, v := p.check(d.call, "{}")
	agreed := strings.Contains(said, "\nagreed")
	if done && got != d.is || !agreed && got != d.was || got != d.was && got != d.is && got != d.between {
		t.Fatalf("%s asks %s (%+v) after\n%s", d.call, got, v.Deny, said)
	}
	if d.after != nil {
		d.after(p, agreed)
	}
	// What was not done can be done, and asks nothing more then.
	if got != d.is {
		if got == "tool_permission" {
			err = p.remember(d.call, core.RememberRule)
		} else {
			err = p.approve(v)
		}
		if err != nil {
			t.Fatalf("again: %v, after\n%s", err, said)
		}
	}
	p.open().want(d.call, "{}", d.is)
	return done
}
