//go:build unix

package corpus_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core/skiptest"
)

// hostileScript is an attack on the sandbox and the codes that it may end with.
type hostileScript struct {
	file string
	want []string
}

// hostileScripts copies the sandbox's attacks with a real server for the one
// that they name, so that their calls go all the way.
func hostileScripts(t *testing.T) []hostileScript {
	t.Helper()
	files, err := filepath.Glob("core/sandbox/testdata/hostile/*.js")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var scripts []hostileScript
	for _, f := range files {
		source, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(string(source), "\n")
		s := hostileScript{filepath.Join(dir, filepath.Base(f)), strings.Fields(strings.TrimPrefix(first, "// expect:"))}
		if filepath.Base(f) == "protocol_newlines.js" {
			s.want = append(s.want, "no_such_tool") // it names servers of its own
		}
		if err := os.WriteFile(s.file, []byte(strings.ReplaceAll(string(source), "mcp.a.b", "mcp.rec.echo")), 0o600); err != nil {
			t.Fatal(err)
		}
		scripts = append(scripts, s)
	}
	return scripts
}

// hostileOutcome is what hostilehost prints for a script.
type hostileOutcome struct {
	Script string `json:"script"`
	Code   string `json:"code"`
	Error  string `json:"error"`
	TookMS int64  `json:"took_ms"`
	Runs   int    `json:"runs"`
	MiB    int    `json:"mib"`
}

// TestHostile_Client runs the sandbox's attacks through a whole client, with
// real servers, a real store and another run beside them. Each ends with its
// own code in its time, the process and its children stay small, and the other
// run never notices.
//
// Scenario 21: loops, bombs, recursion and giant results end within a limit.
func TestHostile_Client(t *testing.T) {
	t.Parallel()
	skiptest.Short(t, "runs attacks to the end of their limits")
	scripts := hostileScripts(t)
	if len(scripts) < 50 {
		t.Fatalf("%d hostile scripts; at least 50 are needed", len(scripts))
	}
	host, recorder := pmltest.Build(t, "./testdata/hostilehost"), pmltest.Recorder(t)
	// Attacks that must end by time have little of it; the others get enough to
	// reach the limit that they are about on a busy machine.
	hasty, patient := []hostileScript{}, []hostileScript{}
	for _, s := range scripts {
		if slices.Contains(s.want, "sandbox_timeout") {
			hasty = append(hasty, s)
		} else {
			patient = append(patient, s)
		}
	}
	if !skiptest.All(t) { // core/sandbox runs others, without a client
		hasty, patient = hasty[:2], patient[:8]
	}
	for name, c := range map[string]struct {
		cpu     time.Duration
		scripts []hostileScript
	}{"Hasty": {300 * time.Millisecond, hasty}, "Patient": {8 * time.Second, patient}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkHostile(t, c.cpu, c.scripts, runHost(t, newWorld(t, host, recorder), c.cpu, c.scripts))
		})
	}
}

// checkHostile compares how the scripts ended with how they must.
func checkHostile(t *testing.T, cpu time.Duration, scripts []hostileScript, got []hostileOutcome) {
	t.Helper()
	if len(got) != len(scripts)+1 {
		t.Fatalf("%d outcomes of %d scripts and a neighbour", len(got), len(scripts))
	}
	for i, s := range scripts {
		o := got[i]
		if o.Code == "" {
			o.Code = "ok"
		}
		if !slices.Contains(s.want, o.Code) && !slices.Contains(s.want, "unhandled "+o.Code) {
			t.Errorf("%s: got %s (%s), want one of %q", filepath.Base(s.file), o.Code, o.Error, s.want)
		}
		if limit := cpu + 2*time.Minute; time.Duration(o.TookMS)*time.Millisecond > limit {
			t.Errorf("%s: took %d ms, the limit is %v", filepath.Base(s.file), o.TookMS, limit)
		}
	}
	if n := got[len(scripts)]; n.Script != "neighbour" || n.Code != "" || n.Runs < len(scripts)/10 {
		t.Errorf("the run beside them: %+v", n)
	}
}

// The most memory that may be resident, in MiB, while the limit of a script is
// 32: of pml itself, and of a child with its own runtime, compiler and VM.
const (
	mostParent = 150
	mostChild  = 150
)

// limit sets the limits of a run in a world's configuration: they stand above
// those of the sandbox.
func limit(t *testing.T, w *world, limits map[string]any) {
	t.Helper()
	file := filepath.Join(w.home, "config.json")
	raw, err := os.ReadFile(file)
	var config map[string]any
	if err == nil {
		err = json.Unmarshal(raw, &config)
	}
	if err == nil {
		config["limits"] = limits
		raw, err = json.Marshal(config)
	}
	if err == nil {
		err = os.WriteFile(file, raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// runHost runs scripts in one hostilehost.
func runHost(t *testing.T, w *world, cpu time.Duration, scripts []hostileScript) []hostileOutcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	limit(t, w, map[string]any{"cpu": cpu.String(), "result_bytes": 1 << 20})
	args := []string{"--cpu", cpu.String()}
	for _, s := range scripts {
		args = append(args, s.file)
	}
	cmd := exec.CommandContext(ctx, w.pml, args...)
	cmd.Dir = w.dir
	cmd.Env = []string{"PML_HOME=" + w.home, "PML_WORKSPACE=" + w.dir, "PATH=" + os.Getenv("PATH"), "HOME=" + w.home}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var got []hostileOutcome
	most, children := 0, 0
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		var o hostileOutcome
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			t.Errorf("hostilehost printed %q", lines.Text())
		}
		if o.Script == "children" {
			children = o.MiB
			continue
		}
		got = append(got, o)
		most = max(most, peakMiB(cmd.Process.Pid))
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("hostilehost: %v\n%s", err, &errs)
	}
	if runtime.GOOS == "linux" && (most == 0 || children == 0) {
		t.Error("the memory was not measured")
	}
	if most > mostParent || children > mostChild {
		t.Errorf("the parent had %d MiB, the largest of its children %d; the limits are %d and %d", most, children, mostParent, mostChild)
	}
	t.Logf("parent %d MiB, largest process %d MiB, %d scripts", most, children, len(scripts))
	return got
}
