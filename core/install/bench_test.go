package install_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/casys-ai/pml/core/install"
	"github.com/casys-ai/pml/core/install/registrytest"
	"github.com/casys-ai/pml/core/launch"
)

// BenchmarkResolve compares a resolution with a bare npm doing the same, turn
// by turn on one registry; ratio is the quotient of the sums.
func BenchmarkResolve(b *testing.B) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		b.Skip(err)
	}
	reg := registrytest.New(b)
	deps := map[string]string{}
	for n := range 100 {
		name := fmt.Sprintf("dep-%d", n)
		deps[name] = "^1.0.0"
		for v := range 20 {
			reg.Publish(registrytest.Package{Name: name, Version: fmt.Sprintf("1.%d.0", v), Files: map[string]string{"index.js": ""}})
		}
	}
	server := registrytest.Server("many", "1.0.0")
	server.Dependencies = deps
	reg.Publish(server)
	env := reg.Env(os.Environ())
	in := install.New(install.Options{Home: b.TempDir(), LookPath: exec.LookPath, Clock: clock, Env: env})
	spec := launch.Spec{Kind: launch.KindNPM, Package: "many", Range: "latest"}
	bare := func() {
		dir := b.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"private":true,"dependencies":{"many":"latest"}}`), 0o600); err != nil {
			b.Fatal(err)
		}
		cmd := exec.Command(npm, "install", "--package-lock-only", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-online")
		cmd.Dir, cmd.Env = dir, env
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
	}
	bare() // npm's cache is warm for both
	var ours, theirs time.Duration
	for b.Loop() {
		start := time.Now()
		bare()
		theirs += time.Since(start)
		start = time.Now()
		if r, err := in.Latest(b.Context(), spec); err != nil || r.SizeBytes == 0 || len(r.Packages) != 101 {
			b.Fatal(len(r.Packages), r.SizeBytes, err)
		}
		ours += time.Since(start)
	}
	b.ReportMetric(float64(ours)/float64(theirs), "ratio")
}
