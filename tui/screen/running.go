package screen

// Open reports whether something is open over the panels: it has the keys.
func (s *Screen) Open() bool { return len(s.overlay) > 0 }
