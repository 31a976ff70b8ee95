package temporal

// Met counts the runs that a process has had to do with.
func Met(s *Store) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.known)
}
