package launch

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
)

type now struct{}

func (now) Now() time.Time { return time.Now().Add(time.Hour) }

// A file that somebody links to, or copies over itself, while it is read has the hash
// of its content all the same; one that is being written has none.
func TestHashFile_TouchedMeanwhile(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		readings []string // the stat after each, "same" for that of before, and the content
		want     string
	}{
		{"never", []string{"same a"}, "a"},
		{"once", []string{"other a", "same a"}, "a"},
		{"always, with one content", []string{"other a", "another a"}, "a"},
		{"once, while it was written", []string{"other a", "same b"}, "b"},
		{"always, with other contents", []string{"1 a", "2 b", "3 c", "4 d", "5 e"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "serve.sh")
			if err := os.WriteFile(file, []byte("exit"), 0o600); err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			f := NewFiles(Options{Home: t.TempDir(), Clock: now{}, Logger: slog.New(slog.DiscardHandler)})
			readings := tt.readings
			f.read = func(string) (hash, stat string, err error) {
				stat, hash, _ = strings.Cut(readings[0], " ")
				if readings = readings[1:]; stat == "same" {
					stat = fileStat(info)
				}
				return hash, stat, nil
			}
			hash, err := f.HashFile(file)
			if hash != tt.want || (err != nil) != (tt.want == "") || err != nil && core.CodeOf(err) != core.CodeServerUnreachable {
				t.Errorf("%q, %v; want %q", hash, err, tt.want)
			}
			if len(readings) > 0 {
				t.Errorf("not read: %q", readings)
			}
		})
	}
}
