package sandbox

import "time"

// maxTurnCalls bounds the calls that a script starts before it waits. A loop
// that starts calls and awaits none would otherwise fill the child's memory.
const maxTurnCalls = 50_000

// grace is what the parent allows on top of a limit that the child itself
// enforces, before it kills the child.
const grace = time.Second

func (l Limits) withDefaults() Limits {
	def(&l.CPU, 30*time.Second)
	def(&l.MemoryBytes, 128<<20)
	def(&l.StackBytes, 1<<20)
	def(&l.ResultBytes, 8<<20)
	def(&l.LogBytes, 1<<20)
	def(&l.SourceBytes, 100<<10)
	return l
}

// of are the limits of one session.
func (l Limits) of(s Start) Limits {
	if s.CPU > 0 {
		l.CPU = s.CPU
	}
	if s.ResultBytes > 0 {
		l.ResultBytes = min(s.ResultBytes, MaxResultBytes)
	}
	// What a script was told holds for it, whatever was configured since.
	l.ResultBytes = max(l.ResultBytes, min(s.ToldBytes, MaxResultBytes))
	return l
}

func def[T int | int64 | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// turnArgBytes bounds the arguments of all calls of one turn.
func (l Limits) turnArgBytes() int64 { return 2 * l.ResultBytes }

// lineBytes bounds a line of the child: arguments, result, console output with
// its escapes, and the frame of each call.
func (l Limits) lineBytes() int64 {
	return l.turnArgBytes() + l.ResultBytes + 6*l.LogBytes + maxTurnCalls*300 + 8<<20
}

// stackSlots is the engine's measure of recursion: about one slot for each
// frame of the script. 0 is the engine's own limit, which is also the highest
// that was seen to be safe.
func (l Limits) stackSlots() uintptr {
	const bytesPerSlot, most = 210, 5000
	return uintptr(min(l.StackBytes/bytesPerSlot, most))
}
