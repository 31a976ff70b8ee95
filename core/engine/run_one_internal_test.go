package engine

import (
	"testing"
	"testing/synctest"
)

// TestAttendance: a caller does not leave while a call is made for it, and no call is
// made for one that has left.
func TestAttendance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var a attendance
		if !a.begin() {
			t.Fatal("nobody waits")
		}
		left := make(chan bool, 1)
		go func() { left <- a.leave() }()
		synctest.Wait()
		select {
		case <-left:
			t.Error("the caller has left during its call")
		default:
		}
		a.end()
		if <-left {
			t.Error("the caller has not looked again")
		}
		if !a.leave() || a.begin() {
			t.Error("a call is made for a caller who has left")
		}
	})
}
