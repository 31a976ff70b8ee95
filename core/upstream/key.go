package upstream

// key is what makes two launches the same process.
type key struct {
	name, workspace, digest string
	audience
}

// audience is whom a connection is for: all, or one peer alone.
type audience struct {
	own  bool
	peer string // its ID, for its own
	// sessions is set of one that all clients share who speak in sessions, where
	// the others are spoken for in another way: over HTTP.
	sessions bool
}

func (k key) id() id { return id{k.name, k.workspace, k.audience} }

func keyOf(l Launch) key {
	k := key{name: l.Name, workspace: l.Workspace, digest: l.Digest}
	if len(l.Peer.declared()) > 0 {
		k.audience = audience{own: true, peer: l.Peer.ID}
	} else if l.URL != "" && l.Protocol == "" && l.Era == Sessions {
		k.sessions = true
	}
	return k
}

// id is what a server is known by, whatever its digest.
type id struct {
	name, workspace string
	audience
}
