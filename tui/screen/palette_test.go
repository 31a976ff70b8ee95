package screen

import "testing"

// TestPalette_Unfinished: a line that needs more is not run, whether it was chosen or typed out.
func TestPalette_Unfinished(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string][]string{
		"Typed":     {":", `"permissions rm"`, "enter"},
		"TypedLong": {":", `"pml permissions rm "`, "enter"},
		"Chosen":    {":", `"permissions rm"`, "down", "enter"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScreen(t, fixtureState(), 100, 30)
			wantIntents(t, press(s, keys...))
			wantShown(t, s, "type a pattern, as permissions ls shows it")
			press(s, `"x"`)
			wantIntents(t, press(s, "enter"), Command{"permissions rm x"})
		})
	}
}

// TestHelp_Words: the help says what a key does in the panel that it is about, as the footer does.
func TestHelp_Words(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 100, 30)
	press(s, "4", "?")
	wantShown(t, s, "Here: task", "copy args")
	wantHidden(t, s, "copy the id")
}
