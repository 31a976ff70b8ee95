package sandbox

import (
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"
)

// TestStarved: time that a process stands in line for a processor is seen, time
// that it waits for something else is not.
func TestStarved(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/schedstat"); err != nil {
		t.Skip("this kernel does not tell how long a process stood in line:", err)
	}
	start := func(name string, args ...string) int {
		cmd := exec.Command(name, args...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		return cmd.Process.Pid
	}
	idle := start("sleep", "600")
	var busy int
	for range runtime.NumCPU() + 1 { // one of them is always in line
		busy = start("sh", "-c", "while :; do :; done")
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(3 * time.Minute); starved(busy) < 20*time.Millisecond; {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("a process that shares its processor never stood in line: %v", starved(busy))
		}
	}
	if d := starved(idle); d > 10*time.Second {
		t.Errorf("a process that sleeps stood in line for %v", d)
	}
	if d := starved(1 << 30); d != 0 {
		t.Errorf("a process that is not there stood in line for %v", d)
	}
}
