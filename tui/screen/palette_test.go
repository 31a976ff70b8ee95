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
