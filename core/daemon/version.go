package daemon

import (
	"cmp"
	"strconv"
	"strings"
)

// newer reports whether version a is newer than b. Versions that are not of the
// form v1.2.3, as those of builds from a working copy, are not newer or older
// than any other.
func newer(a, b string) bool {
	x, okA := parseVersion(a)
	y, okB := parseVersion(b)
	return okA && okB && compareVersions(x, y) > 0
}

// semver is a version: three numbers, and what comes before a release.
type semver struct {
	num [3]int
	pre string
}

func parseVersion(s string) (semver, bool) {
	s, _, _ = strings.Cut(strings.TrimPrefix(s, "v"), "+")
	s, pre, _ := strings.Cut(s, "-")
	parts := strings.Split(s, ".")
	if len(parts) != 3 {
		return semver{}, false
	}
	v := semver{pre: pre}
	for i, p := range parts {
		n, err := strconv.Atoi(p)
		if err != nil || n < 0 {
			return semver{}, false
		}
		v.num[i] = n
	}
	return v, true
}

func compareVersions(a, b semver) int {
	for i := range a.num {
		if c := cmp.Compare(a.num[i], b.num[i]); c != 0 {
			return c
		}
	}
	switch {
	case a.pre == b.pre:
		return 0
	case a.pre == "":
		return 1
	case b.pre == "":
		return -1
	}
	return comparePre(strings.Split(a.pre, "."), strings.Split(b.pre, "."))
}

// comparePre compares what stands before a release, part by part: numbers as
// numbers, and before words.
func comparePre(a, b []string) int {
	for i := range min(len(a), len(b)) {
		x, errX := strconv.Atoi(a[i])
		y, errY := strconv.Atoi(b[i])
		c := strings.Compare(a[i], b[i])
		switch {
		case errX == nil && errY == nil:
			c = cmp.Compare(x, y)
		case errX == nil:
			c = -1
		case errY == nil:
			c = 1
		}
		if c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}
