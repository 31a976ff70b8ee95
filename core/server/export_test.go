package server

// Statuses is the table of codes.
var Statuses = statuses

// SetOpen sets how files of keys are read.
func (k *Keys) SetOpen(open func(path string) ([]byte, error)) { k.open = open }

// Patterns are the patterns of the mux.
func (s *Server) Patterns() []string { return s.routes.patterns }
