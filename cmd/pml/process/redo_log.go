package process

import (
	"context"
	"os"
	"path/filepath"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/store/bolt"
)

// maintenance works on the database files of a home.
type maintenance struct{ home env.Home }

func openMaintenance(o app.OpenOptions) (app.Maintenance, error) {
	home, err := ownHome(o.Home, env.OS())
	if err != nil {
		return nil, err
	}
	return maintenance{home}, nil
}

// stores are the options of both database files: that of this machine's own runs,
// and that of its server.
func (u maintenance) stores() []bolt.Options {
	process := filepath.Base(os.Args[0])
	return []bolt.Options{
		{Dir: u.home.PendingDir(), Name: "pending", Clock: systemClock{}, NewID: newID, PID: os.Getpid(), Process: process},
		{Dir: u.home.Dir, Name: "server", Exclusive: true, Clock: systemClock{}, NewID: newID, PID: os.Getpid(), Process: process},
	}
}

// ApplyLogs implements cli.Maintenance.
func (u maintenance) ApplyLogs(context.Context) ([]app.AppliedLog, error) {
	var list []app.AppliedLog
	for _, opts := range u.stores() {
		n, err := bolt.ApplyLog(opts)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			list = append(list, app.AppliedLog{Store: filepath.Join(opts.Dir, opts.Name+".db"), Commits: n})
		}
	}
	return list, nil
}
