package setup

import "testing"

// A check is one line, however an error or a server's last words are laid out.
func TestOneLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"one": "one", "two\n  faults\n  more": "two; faults; more", "cause\nusage: x\r\n\n\tlast": "cause; usage: x; last", "\n": "", "it last said:\nno key": "it last said: no key",
	} {
		if got := oneLine(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
