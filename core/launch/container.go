package launch

import (
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
)

// containerSwitches are the flags of docker run, podman run and nerdctl run that
// take no value; every other long flag takes one. Of the short ones these
// letters do not.
var containerSwitches = []string{
	"--rm", "--interactive", "--tty", "--detach", "--init", "--privileged", "--publish-all", "--read-only", "--sig-proxy", "--quiet",
	"--no-healthcheck", "--oom-kill-disable", "--disable-content-trust", "--use-api-socket", "--help", "--debug", "--tls", "--tlsverify",
	"--replace", "--rmi", "--no-hosts", "--no-hostname", "--env-host", "--http-proxy", "--read-only-tmpfs", "--passwd", "--tls-verify", "--remote",
}

const containerLetters = "itdPqD"

// containerGlobals are the flags before the subcommand that take a value.
var containerGlobals = []string{
	"-H", "--host", "-c", "--context", "--config", "-l", "--log-level", "--tlscacert", "--tlscert", "--tlskey",
	"-n", "--namespace", "-a", "--address", "--connection", "--url", "--root", "--runroot", "--storage-driver",
}

// container reads the arguments of docker and its likes. What is not the run of
// an image is no container of its own: a compose file, a running container.
func container(args []string) Spec {
	sub := subcommand(args, containerGlobals)
	if sub >= 0 && args[sub] == "container" {
		args = args[sub+1:]
		sub = subcommand(args, nil)
	}
	if sub < 0 || args[sub] != "run" {
		return Spec{Kind: KindOther}
	}
	spec := Spec{Kind: KindDocker}
	image := containerImage(args[sub+1:])
	switch _, digest, ok := strings.Cut(image, "@sha256:"); {
	case image == "":
		spec.Unpinned = "no image is named"
	case !ok || len(digest) != 64:
		spec.Unpinned = "the image " + core.Visible(image, 120, false) + " has no digest: what it is can change; write " +
			core.Visible(strings.SplitN(image, "@", 2)[0], 120, false) + "@sha256:DIGEST"
	}
	return spec
}

// containerImage returns the first argument that is neither a flag nor a
// flag's value.
func containerImage(args []string) string {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "--":
			return strings.Join(args[min(i+1, len(args)):min(i+2, len(args))], "")
		case !strings.HasPrefix(arg, "-") || arg == "-":
			return arg
		case strings.HasPrefix(arg, "--"):
			if !strings.Contains(arg, "=") && !slices.Contains(containerSwitches, arg) {
				i++
			}
		default:
			if rest := strings.TrimLeft(arg[1:], containerLetters); len(rest) == 1 {
				i++ // its value is not attached
			}
		}
	}
	return ""
}
