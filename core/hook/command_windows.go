package hook

import "os/exec"

// Without process groups only the program itself can be ended.
func ownGroup(*exec.Cmd) {}

func killGroup(int) {}
