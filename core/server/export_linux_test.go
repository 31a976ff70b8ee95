package server

// PeerAtTerminal is peerAtTerminal, for tests.
var PeerAtTerminal = peerAtTerminal
