// Package page makes what a browser shows: a run as one file that can be passed on,
// and can be checked against the audit chain that its decisions are from. What it
// makes needs no script, and no request to anywhere.
package page

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
)

// hashOf is what a content security policy calls a style sheet.
func hashOf(style string) string {
	sum := sha256.Sum256([]byte(style))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// shown is foreign text of one line, safe to show.
func shown(text string) string { return core.Visible(text, 0, false) }

// stamp is a time as every reader understands it.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// took is how long something took.
func took(ms float64) string {
	switch d := time.Duration(ms * float64(time.Millisecond)); {
	case ms <= 0:
		return ""
	case d < time.Second:
		return fmt.Sprintf("%d ms", max(1, d.Milliseconds()))
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	default:
		return d.Round(time.Second).String()
	}
}

// valueRunes is how much of one value is shown.
const valueRunes = 4000

// value is JSON for people: laid out, a text as it reads, and cut to valueRunes, which
// says how much is gone.
func value(raw json.RawMessage) string { return legible(raw, valueRunes) }

// whole is value with nothing cut.
func whole(raw json.RawMessage) string { return legible(raw, 0) }

func legible(raw json.RawMessage, limit int) string {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		var b strings.Builder
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if len(raw) == 0 || enc.Encode(raw) != nil {
			return core.Visible(string(raw), limit, true)
		}
		text = strings.TrimSuffix(b.String(), "\n")
	}
	return core.Visible(text, limit, true)
}
