package osc_test

import (
	"testing"

	"github.com/casys-ai/pml/tui/osc"
)

func TestAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reads []string
		keys  string
		told  string
	}{
		"White":       {[]string{"\x1b]11;rgb:ffff/ffff/ffff\x1b\\"}, "", "light"},
		"Black/bell":  {[]string{"\x1b]11;rgb:0000/0000/0000\a"}, "", "dark"},
		"Short":       {[]string{"\x1b]11;rgb:fd/f6/e3\a"}, "", "light"},
		"Among keys":  {[]string{"j\x1b]11;rgb:1e1e/1e1e/2e2e\x1b\\k"}, "jk", "dark"},
		"In pieces":   {[]string{"a\x1b]1", "1;rgb:ff", "ff/ffff/ffff\x1b", "\\b"}, "ab", "light"},
		"Escape":      {[]string{"\x1b", "\x1b]", "2"}, "\x1b\x1b]2", ""},
		"Another":     {[]string{"\x1b]10;rgb:ffff/ffff/ffff\a"}, "\x1b]10;rgb:ffff/ffff/ffff\a", ""},
		"Nonsense":    {[]string{"\x1b]11;rgb:x/y/z\a", "a"}, "a", ""},
		"Never ended": {[]string{"\x1b]11;rgb:" + string(make([]byte, 100)), "a"}, "\x1b]11;rgb:" + string(make([]byte, 100)) + "a", ""},
		"Only once":   {[]string{"\x1b]11;rgb:0/0/0\a", "\x1b]11;rgb:f/f/f\a"}, "\x1b]11;rgb:f/f/f\a", "dark"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keys, told := "", ""
			a := osc.Answers{Told: func(light bool) {
				told += map[bool]string{true: "light", false: "dark"}[light]
			}}
			for _, r := range c.reads {
				keys += string(a.Take([]byte(r)))
			}
			if keys != c.keys || told != c.told {
				t.Errorf("keys %q, told %q; want %q and %q", keys, told, c.keys, c.told)
			}
		})
	}
}
