// Package env knows where pml's files are, what is configured in them, and
// which values of the environment are secrets. It is the only package that
// reads the process environment, and it does so through an Environ that is
// passed in.
//
// Configuration comes, strongest first, from flags, the environment, the
// workspace's .pml.json and the home's config.json. What a workspace's file
// grants counts only once a person on this machine has trusted exactly that
// content (Home.TrustOf, Config.Effective); what it forbids counts at once.
package env

import (
	"os"
	"slices"
	"strings"
)

// Environ looks a variable of the environment up. The second result tells an
// empty variable from one that is not set.
type Environ func(name string) (string, bool)

// OS returns the environment of this process.
func OS() Environ { return os.LookupEnv }

// OSNames returns the names of all variables of this process, sorted. Names
// alone are needed where a family of variables is passed on (NpmEnv).
func OSNames() []string {
	var names []string
	for _, kv := range os.Environ() {
		// Windows has names that begin with "=" (a drive's current folder).
		if name, _, ok := strings.Cut(kv, "="); ok && name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// get returns a variable, empty when it is not set.
func (e Environ) get(name string) string {
	if e == nil {
		return ""
	}
	v, _ := e(name)
	return v
}
