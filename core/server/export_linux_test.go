package server

// PeerAtTerminal is peerAtTerminal, for tests.
var PeerAtTerminal = peerAtTerminal

// PeerIsOther is peerIsOther, for tests.
var PeerIsOther = peerIsOther
