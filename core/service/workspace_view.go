package service

import (
	"path/filepath"
	"strconv"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/env"
)

// In is this client for other requests: in another workspace, for another
// owner, on behalf of somebody else. Engine, store, servers and children are
// shared; Close of it does nothing. A run that is not the scope's is
// core.CodeNotFound, as one that does not exist.
func (c *Service) In(scope api.Scope) (*Service, error) {
	o := c.base
	if scope.Workspace != "" && scope.Workspace != o.Workspace.Dir {
		ws, err := folder(scope.Workspace)
		if err != nil {
			return nil, err
		}
		o.Workspace = ws
	}
	scope.Workspace = o.Workspace.Dir
	if scope.By == (core.Actor{}) {
		scope.By = o.By
	}
	o.By = scope.By
	partial := scope.Owner != "" || scope.Confined
	if partial {
		o.Store = &scoped{Store: c.base.Store, scope: scope}
	}
	v := newView(o, scope, c.process, c.trail.In(auditView(o, partial)))
	v.derived = true
	return v, nil
}

// folder is the workspace that a request names: an absolute path of a folder
// that exists, or of one below it, as for a process that runs there.
func folder(path string) (env.Workspace, error) {
	if !filepath.IsAbs(path) || strings.ContainsRune(path, 0) {
		return env.Workspace{}, core.Errorf(core.CodeInvalidArguments, "the workspace must be the absolute path of a folder, not %q", core.Visible(path, 200, false))
	}
	ws, err := env.FindWorkspace(path, func(string) (string, bool) { return "", false })
	if err != nil {
		return env.Workspace{}, core.Errorf(core.CodeInvalidArguments, "cannot use the workspace %s: %w", core.Visible(path, 200, false), err)
	}
	return ws, nil
}

// keyFor is what an idempotency key of this scope is kept under: equal keys of
// different owners are different keys.
func keyFor(owner, key string) string {
	if owner == "" || key == "" {
		return key
	}
	return strconv.Quote(owner) + " " + key
}

// givenKey is the key as its owner gave it.
func givenKey(run core.Run) string {
	if run.Owner == "" {
		return run.IdempotencyKey
	}
	return strings.TrimPrefix(run.IdempotencyKey, strconv.Quote(run.Owner)+" ")
}
