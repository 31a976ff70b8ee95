package page

// Layout is what every file of ExportVersion looks like, for tests.
func Layout() []string { return []string{exportLayout, exportStyle} }
