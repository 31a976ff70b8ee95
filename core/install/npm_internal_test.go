package install

import (
	"errors"
	"strings"
	"testing"
)

// A failure of npm says what a person could try.
func TestNPMFailed_WhatToTry(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		"E503": "try again later", "E429": "try again later", "E401": "log in with npm", "E403": "log in with npm",
		"E404": "check the package's name", "ETIMEDOUT": "check the network", "ENOSPC": "make room", "EINTEGRITY": "before you know why",
	} {
		out := CommandOutput{Stderr: []byte("npm error code " + code + "\nnpm error the words of npm\n")}
		if err := npmFailed("cannot install demo@1.0.0", out, errors.New("exit status 1")); !strings.Contains(err.Message, want) || !strings.Contains(err.Message, "the words of npm") {
			t.Errorf("%s: %s", code, err.Message)
		}
	}
}
