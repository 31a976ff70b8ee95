// Command empty does nothing. It is the floor for the start of a process.
package main

func main() {}
