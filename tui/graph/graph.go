// Package graph lays a graph of layers out: which box stands where, and how the
// lines between them run. It knows no text and no terminal.
package graph
