//go:build race

package sandbox_test

// raceEnabled: the engine is many times slower under the race detector.
const raceEnabled = true
