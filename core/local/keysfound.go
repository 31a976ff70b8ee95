package local

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/env"
)

// KeysFound names those keys of an approval that were missing when it was made
// and are set by now, in the environment or in the .env of its workspace; a
// placeholder is none. It is nil for an approval of another type. A .env or
// configuration that cannot be read is core.CodeInvalidConfig.
func (c *Client) KeysFound(ctx context.Context, approval core.ID) ([]string, error) {
	ap, err := c.Approval(ctx, approval)
	if err != nil || ap.Type != core.ApproveKeys {
		return nil, err
	}
	var asked struct {
		Keys []string `json:"missing_keys"`
	}
	if err := json.Unmarshal(ap.Context, &asked); err != nil {
		return nil, core.Errorf(core.CodeInternal, "what %s asks for cannot be read: %w", ap.ID.Short(), err)
	}
	ws := c.o.Workspace
	if ap.Workspace != ws.Dir {
		ws = env.Workspace{Dir: ap.Workspace, Source: "run"}
	}
	cfg, err := env.Load(env.LoadOptions{Workspace: ws, Home: c.o.Home, Environ: c.o.Environ, Server: c.o.Server})
	if err != nil {
		return nil, err
	}
	now, err := cfg.Keys(ap.Subject)
	if err != nil {
		return nil, err
	}
	found := []string{}
	for _, name := range asked.Keys {
		if !slices.Contains(now.Missing, name) {
			found = append(found, name)
		}
	}
	return found, nil
}
