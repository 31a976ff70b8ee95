package daemon

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/atomicfile"
)

// Record is server.json: what a server says of itself to those who look for it.
// It is a hint: only what the socket answers counts.
type Record struct {
	Version   string    `json:"version"`
	Protocol  int       `json:"protocol"`
	PID       int       `json:"pid"`
	Socket    string    `json:"socket,omitempty"`
	URL       string    `json:"url,omitempty"`
	StartedAt time.Time `json:"started_at"`
	// Background is set for one that pml has started by itself.
	Background bool `json:"background"`
}

// maxRecord bounds what is read of server.json.
const maxRecord = 64 << 10

func recordFile(home string) string { return filepath.Join(home, "server.json") }

// ReadRecord reads server.json; false when there is none that can be read. What
// is in it may be of a server that is gone.
func ReadRecord(home string) (Record, bool) {
	f, err := os.Open(recordFile(home))
	if err != nil {
		return Record{}, false
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxRecord))
	if err != nil {
		return Record{}, false
	}
	return parseRecord(raw)
}

// parseRecord reads the content of server.json. A path that is not absolute or
// too long for a socket makes it none.
func parseRecord(raw []byte) (Record, bool) {
	var r Record
	if json.Unmarshal(raw, &r) != nil || r.PID < 0 {
		return Record{}, false
	}
	if r.Socket != "" && CheckSocket(r.Socket) != nil {
		return Record{}, false
	}
	return r, true
}

func writeRecord(home string, r Record) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return core.Errorf(core.CodeInternal, "cannot encode server.json: %w", err)
	}
	if err := atomicfile.Write(recordFile(home), append(raw, '\n'), 0o600); err != nil {
		return core.Errorf(core.CodeStoreFailed, "cannot write %s: %w; make room, or make the folder writable", recordFile(home), err)
	}
	return nil
}

func itoa(n int) string { return strconv.Itoa(n) }
