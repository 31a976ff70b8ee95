// Package sandbox runs JavaScript in child processes.
//
// A child is this binary started with a hidden subcommand. It holds one
// QuickJS VM, speaks JSON lines over its stdin and stdout, and serves one run;
// nothing but JSON crosses. The parent bounds what it reads, and kills a child
// that goes past a limit, so that whatever a script does harms its own run only.
//
// Scripts are deterministic: time is that of the last delivery, randomness
// comes from a seed, and results are handed over one by one in a given order,
// so the same journal leads to the same calls.
package sandbox
