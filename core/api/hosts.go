package api

// HostState is how a host's configuration stands to pml.
type HostState string

// The states of a host. A change goes with HostNew, HostDiffers, HostAdded and
// HostChanged.
const (
	HostNew        HostState = "new"        // it does not know pml yet
	HostRegistered HostState = "registered" // it does
	HostDiffers    HostState = "differs"    // what it knows by that name is another entry
	HostUnusable   HostState = "unusable"   // its file is left as it is: see Reason
	HostAdded      HostState = "added"      // pml's entry stands there as pml wrote it
	HostChanged    HostState = "changed"    // somebody has changed it since
	HostGone       HostState = "gone"       // it is not there any more
)

// HostRequest says which hosts are meant: those of these names, or without any
// those that are found. Undo asks for what pml has added to be taken out.
type HostRequest struct {
	Hosts []string
	Undo  bool
}

// HostChange is what telling one host of pml, or taking pml out again, would
// do.
type HostChange struct {
	Host   string    `json:"host"`
	Title  string    `json:"title"`
	File   string    `json:"file"`
	State  HostState `json:"state"`
	Reason string    `json:"reason,omitempty"`
	// Change is what would be written. A file that pml made and that nobody else
	// has used is removed: then its After is nil.
	Change *Change `json:"change,omitempty"`
	// Covered names a host whose entry does for this one.
	Covered string `json:"covered_by,omitempty"`
	// Hint says what a person does for the host to see the change.
	Hint    string `json:"hint,omitempty"`
	Written bool   `json:"written"`
}
