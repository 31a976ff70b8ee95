//go:build race

package main

// raceEnabled makes the largest tests smaller.
const raceEnabled = true
