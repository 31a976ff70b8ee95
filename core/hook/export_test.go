package hook

import "time"

// Patient gives what is left at the end as long as the busiest machine takes.
func (r *Runner) Patient() { r.background.grace = 2 * time.Minute }
