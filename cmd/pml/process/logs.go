package process

import (
	"io"
	"log/slog"
	"os"

	"gopkg.in/natefinch/lumberjack.v2"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core/daemon"
	"github.com/casys-ai/pml/core/env"
)

// The log of a server in the background: how large a file grows, in MB, and
// how many older ones are kept.
const (
	logSize  = 10
	logFiles = 5
)

// serverLog is where a server logs: on stderr where a person has started it,
// else in a file that is begun anew when it is large. What a crash says is
// written by the runtime to the file with which the process was started.
func serverLog(o app.ServeOptions, home env.Home) (*slog.Logger, io.Closer) {
	var out io.WriteCloser = kept{os.Stderr}
	if o.ReadyFD > 0 {
		out = &lumberjack.Logger{Filename: daemon.LogFile(home.Dir), MaxSize: logSize, MaxBackups: logFiles}
	}
	h := &slog.HandlerOptions{Level: logLevel(o.Log, slog.LevelInfo)}
	if o.JSONLog {
		return slog.New(slog.NewJSONHandler(out, h)), out
	}
	return slog.New(slog.NewTextHandler(out, h)), out
}

// kept is a writer that stays open.
type kept struct{ io.Writer }

// Close implements io.Closer and does nothing.
func (kept) Close() error { return nil }
