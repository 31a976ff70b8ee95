#!/bin/sh
# An editor that says whether it has a terminal, and waits for a line.
if [ -t 0 ] && [ -t 1 ]; then
	printf '\033[2J\033[Hthe editor has a terminal'
else
	printf '\033[2J\033[Hthe editor has no terminal'
fi
read -r line
