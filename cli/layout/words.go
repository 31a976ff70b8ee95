package layout

import (
	"fmt"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
)

// Plural is a number of things in words: 1 call, 2 calls.
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Size is a number of bytes for people.
func Size(n int64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}

// WriteLines shows lines as they are, none of them able to act on a terminal
// or to look like two.
func WriteLines(w *strings.Builder, lines []string, indent int) {
	pad := strings.Repeat(" ", indent)
	for _, l := range lines {
		w.WriteString(strings.TrimRight(pad+core.Visible(strings.TrimSuffix(l, "\r"), 0, false), " ") + "\n")
	}
}

// Joined is a text of several lines, as a server's last words are, on one: a stroke stands
// between them, and nothing behind a colon.
func Joined(text string) string {
	out := ""
	for line := range strings.Lines(strings.ReplaceAll(text, "\r", "\n")) {
		switch line = strings.TrimSpace(line); {
		case line == "":
		case out == "":
			out = line
		case strings.HasSuffix(out, ":"):
			out += " " + line
		default:
			out += " / " + line
		}
	}
	return out
}

// Ago is how long ago a time was, in its largest unit.
func Ago(now, t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	d := now.Sub(t)
	switch {
	case d < 0:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}

// In is the time until an expiry in words: in 4m32s, or expired, or never.
func In(now time.Time, t *time.Time) string {
	left := Left(now, t)
	if t == nil || !t.After(now) {
		return left
	}
	return "in " + left
}

// Left is the time until an expiry, with its units so that it reads as no time of day.
func Left(now time.Time, t *time.Time) string {
	if t == nil {
		return "never"
	}
	d := t.Sub(now)
	if d <= 0 {
		return "expired"
	}
	s := int((d + time.Second - 1) / time.Second)
	switch {
	case s >= 48*3600:
		return fmt.Sprintf("%dd%02dh", s/86400, s/3600%24)
	case s >= 3600:
		return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
	case s >= 60:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	}
	return fmt.Sprintf("%ds", s)
}

// Stamp is a time for a screen.
func Stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// When is a time for a terminal, in its zone; the year shows when it is another.
func When(now, t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	t = t.In(now.Location())
	if t.Year() != now.Year() {
		return t.Format("2006-01-02 15:04")
	}
	return t.Format("Jan _2 15:04")
}

// Millis is a duration in milliseconds for a screen.
func Millis(ms float64) string {
	switch {
	case ms <= 0:
		return "-"
	case ms < 1000:
		return fmt.Sprintf("%.0fms", max(ms, 1))
	}
	return (time.Duration(ms) * time.Millisecond).Round(100 * time.Millisecond).String()
}
