package temporal_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store/temporal"
)

// line is a key as a file has it.
func line(k temporal.Key) string {
	return k.ID + ":" + base64.StdEncoding.EncodeToString(k.Secret[:]) + "\n"
}

func TestParseKeys(t *testing.T) {
	t.Parallel()
	ks := keys("2026a", "2025_b.old-1")
	got, err := temporal.ParseKeys([]byte("# the first one writes\n\n  " + line(ks[0]) + "\r\n" + strings.TrimSpace(line(ks[1]))))
	if err != nil || len(got) != 2 || got[0] != ks[0] || got[1] != ks[1] {
		t.Errorf("%v %v", got, err)
	}
}

// All that is wrong is in one error, with its line, and nothing of a key is.
func TestParseKeys_Faults(t *testing.T) {
	t.Parallel()
	ks := keys("a", "b")
	secret := base64.StdEncoding.EncodeToString(ks[0].Secret[:])
	zero := base64.StdEncoding.EncodeToString(make([]byte, 32))
	text := line(ks[0]) + secret + "\n" + "c:" + secret[:20] + "\n" + "d:" + secret[:41] + "!\n" + line(ks[0]) + "e:" + secret + "\n" + secret + ":" + secret + "\n:" + secret + "\nz:" + zero + "\n" + line(ks[1])
	_, err := temporal.ParseKeys([]byte(text))
	e := core.AsError(err)
	if e == nil || e.Code != core.CodeInvalidConfig {
		t.Fatalf("%v", err)
	}
	want := map[int]string{2: "no colon", 3: "15 bytes", 4: "no base64", 5: "two keys a", 6: "a and e are the same", 7: "its id", 8: "its id", 9: "zeros"}
	for _, f := range e.Faults {
		if !strings.Contains(f.Message, want[f.At.Line]) || want[f.At.Line] == "" {
			t.Errorf("%v", f)
		}
		delete(want, f.At.Line)
	}
	if len(want) > 0 {
		t.Errorf("not named: %v", want)
	}
	if strings.Contains(err.Error(), secret[:12]) {
		t.Errorf("the error has a key: %v", err)
	}
	if _, err := temporal.ParseKeys([]byte("# none\n")); core.CodeOf(err) != core.CodeInvalidConfig || !strings.Contains(err.Error(), "no key") {
		t.Errorf("%v", err)
	}
}

// A file of keys that others may read is refused, and what else is wrong with it is said with that.
func TestReadKeys(t *testing.T) {
	t.Parallel()
	ks, file := keys("a"), filepath.Join(t.TempDir(), "keys")
	write := func(text string, mode os.FileMode) {
		t.Helper()
		_ = os.Remove(file)
		if err := os.WriteFile(file, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, mode := range []os.FileMode{0o600, 0o400} {
		write(line(ks[0]), mode)
		if got, err := temporal.ReadKeys(file); err != nil || len(got) != 1 || got[0] != ks[0] {
			t.Errorf("%o: %v %v", mode, got, err)
		}
	}
	if runtime.GOOS != "windows" {
		for _, mode := range []os.FileMode{0o640, 0o604, 0o660} {
			write(line(ks[0])+"b:\n", mode)
			_, err := temporal.ReadKeys(file)
			if e := core.AsError(err); core.CodeOf(err) != core.CodeInvalidConfig || len(e.Faults) != 2 || !strings.Contains(e.Error(), "chmod 600") || !strings.Contains(e.Error(), file+":2:1: ") {
				t.Errorf("%o: %v", mode, err)
			}
		}
	}
	for _, none := range []string{filepath.Join(t.TempDir(), "none"), t.TempDir()} {
		if _, err := temporal.ReadKeys(none); core.CodeOf(err) != core.CodeInvalidConfig {
			t.Errorf("%v", err)
		}
	}
}

// Whoever prints keys, or options with them, prints their ids.
func TestKey_Printed(t *testing.T) {
	t.Parallel()
	ks := keys("a")
	asJSON, err := json.Marshal(ks)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		fmt.Sprint(ks), fmt.Sprintf("%v %+v %#v %s %x %d", ks[0], ks[0], ks[0], ks[0], ks[0], ks[0]), fmt.Sprintf("%+v", temporal.Options{Keys: ks}), string(asJSON),
	} {
		for _, secret := range []string{fmt.Sprint(ks[0].Secret[0], " ", ks[0].Secret[1]), hex.EncodeToString(ks[0].Secret[:4]), fmt.Sprintf("0x%x", ks[0].Secret[0])} {
			if strings.Contains(text, secret) || !strings.Contains(text, "a") {
				t.Errorf("%s", text)
			}
		}
	}
}

// FuzzParseKeys: what is taken is as it must be, and what is refused has a reason.
func FuzzParseKeys(f *testing.F) {
	f.Add([]byte(line(keys("a")[0]) + line(keys("b")[0])))
	f.Add([]byte("# x\n\na:b\n:\r\n" + line(keys("a")[0]) + line(keys("a")[0])))
	f.Fuzz(func(t *testing.T, text []byte) {
		ks, err := temporal.ParseKeys(text)
		if err != nil {
			if e := core.AsError(err); len(ks) > 0 || e.Code != core.CodeInvalidConfig || len(e.Faults) == 0 {
				t.Fatalf("%v %v", ks, err)
			}
			return
		}
		var again bytes.Buffer
		for _, k := range ks {
			again.WriteString(line(k))
		}
		if same, err := temporal.ParseKeys(again.Bytes()); err != nil || len(same) != len(ks) || len(ks) == 0 {
			t.Fatalf("%v becomes %v: %v", ks, same, err)
		}
	})
}
