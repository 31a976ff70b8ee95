package demo

import (
	"context"
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// Servers are MCP servers in all states.
func (b *Backend) Servers(context.Context) ([]api.ServerInfo, error) {
	npm := func(name, pack, version string, tools int) api.ServerInfo {
		return api.ServerInfo{
			Name: name, State: api.ServerReady, Origin: "workspace", File: "/home/you/src/shop/.pml.json", Kind: "npm",
			Command: []string{"npx", "-y", pack + "@" + version}, Package: pack, Version: version, Installed: true, Tools: tools,
		}
	}
	gh, stripe := npm("gh", "@modelcontextprotocol/server-github", "2026.7.1", 26), npm("stripe", "@stripe/mcp", "0.3.1", 22)
	gh.Health = &api.ServerHealth{State: "running", PID: 4711, StartMS: 412, Protocol: "2025-11-25", Server: "github-mcp-server 2026.7.1", Stderr: "GitHub MCP Server running on stdio\nrate limit: 4811 of 5000 left\n"}
	serena := api.ServerInfo{
		Name: "serena", State: api.ServerNeeds, Origin: "workspace", Kind: "npm", Command: []string{"npx", "-y", "serena@^0.5.0"}, Package: "serena", Range: "^0.5.0",
		Needs: []api.ServerNeed{{Type: core.ApproveDependency, Description: "install serena@0.5.0 (42 packages)"}},
	}
	linear := api.ServerInfo{
		Name: "linear", State: api.ServerNeeds, Origin: "home", Kind: "http", URL: "https://mcp.linear.example/mcp",
		Needs: []api.ServerNeed{{Type: core.ApproveOAuth, Description: "sign in"}},
	}
	ocr := api.ServerInfo{
		Name: "ocr", State: api.ServerFailed, Origin: "workspace", Kind: "uvx", Command: []string{"uvx", "ocr-mcp"}, Error: "it ended with exit status 1 before it answered",
		Health: &api.ServerHealth{State: "failing", Failures: 3, LastError: "exit status 1", Stderr: "Traceback (most recent call last):\n  File \"main.py\", line 3, in <module>\nModuleNotFoundError: No module named 'torch'\n"},
	}
	if b.approved(core.ApproveDependency) {
		serena = npm("serena", "serena", "0.5.0", 17)
	}
	if b.approved(core.ApproveOAuth) {
		linear.State, linear.Needs, linear.Tools = api.ServerReady, nil, 23
	}
	return []api.ServerInfo{gh, linear, ocr, serena, stripe}, nil
}

// approved reports whether somebody has approved what waits of a type, of which the demo has one
// each of servers.
func (b *Backend) approved(typ core.ApprovalType) bool {
	list, _ := b.Approvals(context.Background(), true) // it has no error
	return slices.ContainsFunc(list, func(a core.Approval) bool {
		return a.Type == typ && a.State == core.ApprovalApproved && a.DecidedBy != nil && a.DecidedBy.At.After(b.script.began)
	})
}

// CheckServers tells how servers stand; none is started.
func (b *Backend) CheckServers(ctx context.Context, names ...string) ([]api.ServerInfo, error) {
	list, err := b.Servers(ctx)
	return slices.DeleteFunc(list, func(s api.ServerInfo) bool { return len(names) > 0 && !slices.Contains(names, s.Name) }), err
}

// RestartServer tells how a server stands; none is started.
func (b *Backend) RestartServer(ctx context.Context, name string) ([]api.ServerInfo, error) {
	return b.CheckServers(ctx, name)
}

// Rules are permission rules of both places.
func (b *Backend) Rules(context.Context) ([]api.PermissionRule, error) {
	return []api.PermissionRule{
		{List: "deny", Tool: "stripe:refund*", From: "home"}, {List: "allow", Tool: "workspace:read_file", From: "workspace"},
	}, nil
}

// ConnectedHosts are the host whose agent began the runs, and one that has only
// connected.
func (b *Backend) ConnectedHosts(context.Context) ([]api.ConnectedHost, error) {
	cursor := core.NewClient("cursor", "2.4.1", "Cursor")
	return []api.ConnectedHost{
		{Client: agent.Client, Who: agent.Who, Workspace: "/home/you/src/shop", Transport: "stdio", PID: 4242, Since: b.script.began.Add(-2 * time.Hour)},
		{Client: cursor, Who: agent.Who, Workspace: "/home/you/src/blog", Transport: "stdio", PID: 5151, Since: b.script.began.Add(-4 * time.Minute)},
	}, nil
}
