// Package trace says what pml does in the terms of the tools that watch it:
// Prometheus metrics and OpenTelemetry traces, fed by committed events. Without
// a collector it does nothing.
package trace
