package service

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/casys-ai/pml/core"
)

// tidyEvery is how often old runs are looked for.
const tidyEvery = 24 * time.Hour

// tidy records what has expired and removes runs that ended longer ago than
// the configured retention, at most once a day on a machine and never before a
// result was given. What goes wrong is logged: the next time mends it.
func (c *history) tidy() {
	cfg, err := c.config()
	if err != nil || cfg.Retention <= 0 {
		return
	}
	mark := filepath.Join(c.o.Home.Dir, "tidied")
	now := c.now()
	if fi, err := os.Stat(mark); err == nil && now.Sub(fi.ModTime()) < tidyEvery {
		return
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		c.o.Logger.Debug("cannot mark the day's tidying", "error", err)
		return
	}
	if err := os.Chtimes(mark, now, now); err != nil {
		c.o.Logger.Debug("cannot mark the day's tidying", "error", err)
	}
	if n, err := c.Prune(context.Background(), now.Add(-cfg.Retention)); err != nil {
		c.o.Logger.Warn("cannot remove old runs", "error", core.AsError(err))
	} else if n > 0 {
		c.o.Logger.Info("removed old runs", "runs", n)
	}
}
