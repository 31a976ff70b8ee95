//go:build !unix

package pmltest

// heedHangup does nothing where there is no hangup.
func heedHangup() {}
