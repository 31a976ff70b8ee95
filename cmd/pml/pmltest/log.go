//go:build unix

package pmltest

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"time"
)

// IncKeys are the keys of the calls of inc, in order.
func (m *Machine) IncKeys() string {
	m.T.Helper()
	var out []string
	for _, e := range m.Entries() {
		var args struct {
			Key string `json:"key"`
		}
		if e.Event == "start" && e.Tool == "inc" && json.Unmarshal(e.Args, &args) == nil {
			out = append(out, args.Key)
		}
	}
	return strings.Join(out, " ")
}

// LogEntry is one line of the recorder's log.
type LogEntry struct {
	N      int             `json:"n"`
	Event  string          `json:"event"` // start, end, error, cancelled
	Server string          `json:"server"`
	Tool   string          `json:"tool"`
	Args   json.RawMessage `json:"args"`
	PID    int             `json:"pid"`
	At     time.Time       `json:"at"`
}

// Entries reads the recorder's log.
func (m *Machine) Entries() []LogEntry {
	m.T.Helper()
	raw, err := os.ReadFile(m.Log)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		m.T.Fatal(err)
	}
	var out []LogEntry
	for line := range bytes.Lines(raw) {
		var e LogEntry
		if json.Unmarshal(line, &e) == nil { // the last one may be half written
			out = append(out, e)
		}
	}
	return out
}

// Calls are the calls that reached the recorder, as "tool {arguments}".
func (m *Machine) Calls() []string {
	m.T.Helper()
	out := []string{}
	for _, e := range m.Entries() {
		if e.Event == "start" {
			out = append(out, e.Tool+" "+string(e.Args))
		}
	}
	return out
}

// Count is how many calls of a tool reached the recorder.
func (m *Machine) Count(tool string) int { return m.Events(tool, "start") }

// Events counts lines of the recorder's log.
func (m *Machine) Events(tool, event string) int {
	m.T.Helper()
	n := 0
	for _, e := range m.Entries() {
		if e.Event == event && e.Tool == tool {
			n++
		}
	}
	return n
}
