//go:build !race

package flow

const raceFactor = 1
