package launch

import (
	"slices"
	"strconv"
	"strings"
)

// starters are programs that run what the rest of their line says, what they are
// fed, or what stands in a file that nobody named: what a server started by one of
// them runs is not found, and not hashed. unwrap looks through the plain forms of
// some.
var starters = []string{
	// another program, here or elsewhere
	"nohup", "timeout", "gtimeout", "nice", "ionice", "setsid", "stdbuf", "unbuffer", "time", "chrt", "taskset", "numactl", "prlimit", "setarch", "env", "sudo", "doas", "su",
	"runuser", "pkexec", "chroot", "unshare", "nsenter", "bwrap", "firejail", "setpriv", "capsh", "systemd-run", "start-stop-daemon", "daemonize", "flock", "watch", "entr",
	"watchexec", "nodemon", "xargs", "parallel", "at", "batch", "strace", "ltrace", "gdb", "lldb", "valgrind", "catchsegv", "rlwrap", "script", "screen", "tmux", "xvfb-run",
	"dbus-run-session", "ssh-agent", "ssh", "mosh", "telnet", "socat", "nc", "ncat", "netcat", "kubectl", "vagrant", "wsl", "toolbox", "distrobox", "busybox", "toybox",
	"direnv", "mise", "asdf", "nix", "nix-shell", "dotenv", "dotenvx", "doppler", "op", "aws-vault", "concurrently", "pm2", "expect",
	// what a file says
	"make", "gmake", "bmake", "remake", "just", "task", "rake", "ninja", "meson", "cmake", "scons", "bazel", "gradle", "gradlew", "mvn", "mvnw", "ant", "tox", "nox", "invoke",
	"docker-compose", "foreman", "honcho", "overmind", "lefthook", "pre-commit",
}

// runs are programs that do so after one of these words.
var runs = map[string][]string{
	"go": {"run", "generate", "tool"}, "cargo": {"run", "r", "xtask", "make"}, "dotnet": {"run", "exec", "watch"}, "swift": {"run"}, "zig": {"run", "build"}, "mix": {"run"},
	"bundle": {"exec"}, "poetry": {"run"}, "pipenv": {"run"}, "pdm": {"run"}, "hatch": {"run"}, "rye": {"run"}, "pixi": {"run"}, "conda": {"run"}, "mamba": {"run"},
	"composer": {"exec", "run", "run-script"}, "docker": {"exec", "compose"}, "podman": {"exec", "compose"}, "nerdctl": {"exec", "compose"},
}

// starts returns the program of a command line that starts others which are not
// looked at, with the word that says so.
func starts(command string, args []string) string {
	name := program(command)
	if slices.Contains(starters, name) {
		return name
	}
	for _, arg := range args {
		if slices.Contains(runs[name], arg) {
			return name + " " + arg
		}
		if !strings.HasPrefix(arg, "-") {
			break
		}
	}
	return ""
}

// started returns the command that a starter starts, in the forms that pml knows:
// nohup and setsid without flags, nice with a number, timeout with flags that have
// their value attached and a duration.
func started(command string, args []string) (inner string, rest []string, ok bool) {
	n := 0
	switch program(command) {
	case "nohup", "setsid":
	case "nice":
		switch {
		case len(args) > 1 && args[0] == "-n" && isNumber(args[1]):
			n = 2
		case len(args) > 0 && isNumber(strings.TrimPrefix(args[0], "--adjustment=")):
			n = 1
		}
	case "timeout", "gtimeout":
		for n < len(args) && (strings.HasPrefix(args[n], "--") && (strings.Contains(args[n], "=") || args[n] == "--foreground" || args[n] == "--preserve-status") || args[n] == "-v") {
			n++
		}
		if n >= len(args) || !isNumber(strings.TrimRight(args[n], "smhd")) {
			return "", nil, false
		}
		n++
	default:
		return "", nil, false
	}
	if n >= len(args) || args[n] == "" || strings.HasPrefix(args[n], "-") {
		return "", nil, false
	}
	return args[n], args[n+1:], true
}

func isNumber(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}
