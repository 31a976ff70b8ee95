package server

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/danielgtaylor/huma/v2"
)

type listInput struct {
	Status []string `query:"status" doc:"States of runs, with commas between"`
	Limit  int      `query:"limit" minimum:"1" maximum:"500" default:"50"`
	Cursor string   `query:"cursor" maxLength:"64" doc:"What the page before said in next"`

	states []core.RunState
}

// Resolve reads the states, which may also stand in several parameters.
func (in *listInput) Resolve(ctx huma.Context) []error {
	url := ctx.URL()
	var faults []error
	for _, word := range words(url.Query()["status"]) {
		state := core.RunState(word)
		if !slices.Contains(core.RunStates, state) {
			faults = append(faults, queryFault("status", "there is no state %q%s", core.Visible(word, 40, false), suggest(word, core.RunStates)))
			continue
		}
		in.states = append(in.states, state)
	}
	return faults
}

// words splits values of a parameter at commas.
func words(values []string) []string {
	var out []string
	for _, value := range values {
		for word := range strings.SplitSeq(value, ",") {
			if word = strings.TrimSpace(word); word != "" {
				out = append(out, word)
			}
		}
	}
	return out
}

func suggest[T ~string](word string, all []T) string {
	names := make([]string, len(all))
	for i, name := range all {
		names[i] = string(name)
	}
	if near := core.Suggest(word, names); near != "" {
		return near
	}
	return "; there are " + strings.Join(names, ", ")
}

type journalInput struct {
	RunPath
	Since int64 `query:"since" minimum:"0" doc:"Records after this sequence number"`
	Limit int   `query:"limit" minimum:"1" maximum:"5000" default:"1000"`
}

type checkpointInput struct {
	RunPath
	Checkpoint string `path:"cid" doc:"The id of a checkpoint, or of an approval (as checkpoint_id of a result is) for the checkpoint before it, or the first 4 or more characters of one"`
}

func (s *Server) addReads() {
	const one = prefix + "/workflows/{id}"
	add(s, op("workflows", http.MethodGet, prefix+"/workflows", "Runs, newest first"), list)
	add(s, op("workflow", http.MethodGet, one, "A run with its layers, tasks and approvals"), show)
	add(s, op("remove", http.MethodDelete, one, "Remove a run that has ended"), remove)
	add(s, op("dag", http.MethodGet, one+"/dag", "What a run executes, its newest version"), program)
	add(s, op("checkpoints", http.MethodGet, one+"/checkpoints", "The newest checkpoints of a run"), checkpoints)
	add(s, op("checkpoint", http.MethodGet, one+"/checkpoints/{cid}", "The run as it stood at a checkpoint: tasks, decisions, messages"), checkpoint)
	add(s, op("journal", http.MethodGet, one+"/journal", "What a run has done, record by record"), journal)
	add(s, op("export", http.MethodGet, one+"/export", "A run as a file: all that is kept of it, for pml workflows import"), export)
	add(s, op("result", http.MethodGet, one+"/result", "How a run ended"), result)
	add(s, op("tools", http.MethodGet, prefix+"/tools", "The tools that there are"), tools)
	add(s, op("servers", http.MethodGet, prefix+"/servers", "The MCP servers of the caller's workspace, and the processes of them that this server runs; on the socket only"), mcpServers)
	add(s, op("restart-server", http.MethodPost, prefix+"/servers/{name}/restart", "End the process of an MCP server and start it anew; calls that it is in fail; on the socket only"), restartServer)
}

// serversOutput are MCP servers.
type serversOutput struct {
	Body struct {
		Items []api.ServerInfo `json:"items"`
	}
}

// keeper is who runs MCP servers for whoever calls on the socket.
func (c call) keeper(ctx context.Context) (MCPKeeper, error) {
	k, ok := c.Backend.(MCPKeeper)
	if !ok || !listenerOf(ctx).socket {
		return nil, core.Errorf(core.CodePermissionDenied, "MCP servers are looked at and restarted on the machine of this server, on its socket").WithNext("pml", "servers", "ls")
	}
	return k, nil
}

func mcpServers(ctx context.Context, c call, _ *nothing) (*serversOutput, error) {
	k, err := c.keeper(ctx)
	if err != nil {
		return nil, err
	}
	var out serversOutput
	out.Body.Items, err = k.OwnServers(ctx)
	return &out, err
}

type serverPath struct {
	Name string `path:"name" doc:"The name of an MCP server of the workspace"`
}

func restartServer(ctx context.Context, c call, in *serverPath) (*serversOutput, error) {
	k, err := c.keeper(ctx)
	if err != nil {
		return nil, err
	}
	var out serversOutput
	out.Body.Items, err = k.RestartOwn(ctx, in.Name)
	return &out, err
}

func list(ctx context.Context, c call, in *listInput) (*page[core.Run], error) {
	p, err := c.Workflows(ctx, in.states, in.Limit, in.Cursor)
	if err != nil {
		return nil, err
	}
	if p.Items == nil {
		p.Items = []core.Run{}
	}
	return &page[core.Run]{p}, nil
}

type workflowOutput struct{ Body core.Workflow }

func show(ctx context.Context, c call, in *RunPath) (*workflowOutput, error) {
	id, _, err := c.run(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	wf, err := c.Workflow(ctx, id)
	return &workflowOutput{wf}, err
}

func remove(ctx context.Context, c call, in *RunPath) (*nothing, error) {
	id, _, err := c.run(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return &nothing{}, c.RemoveWorkflows(ctx, id)
}

type programOutput struct{ Body core.Program }

func program(ctx context.Context, c call, in *RunPath) (*programOutput, error) {
	id, _, err := c.run(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	p, err := c.Program(ctx, id)
	return &programOutput{p}, err
}

func checkpoints(ctx context.Context, c call, in *RunPath) (*page[core.Checkpoint], error) {
	id, _, err := c.run(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	list, err := c.Checkpoints(ctx, id)
	return pageOf(list, ""), err
}

type checkpointOutput struct{ Body core.CheckpointView }

func checkpoint(ctx context.Context, c call, in *checkpointInput) (*checkpointOutput, error) {
	id, _, err := c.run(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	view, err := c.Checkpoint(ctx, id, in.Checkpoint)
	return &checkpointOutput{view}, err
}

func journal(ctx context.Context, c call, in *journalInput) (*page[core.Record], error) {
	id, _, err := c.run(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	records, err := c.Records(ctx, id, in.Since)
	if err != nil {
		return nil, err
	}
	next := ""
	if len(records) > in.Limit {
		records = records[:in.Limit]
		next = number(records[in.Limit-1].Seq)
	}
	return pageOf(records, next), nil
}

type exportOutput struct{ Body api.RunFile }

func export(ctx context.Context, c call, in *RunPath) (*exportOutput, error) {
	id, _, err := c.run(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	f, err := c.ExportRun(ctx, id)
	return &exportOutput{f}, err
}

type resultOutput struct{ Body api.RunResult }

func result(ctx context.Context, c call, in *RunPath) (*resultOutput, error) {
	id, _, err := c.run(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	wf, err := c.Workflow(ctx, id)
	return &resultOutput{api.RunResult{WorkflowID: wf.ID, State: wf.State, Result: wf.Result, Error: wf.Error}}, err
}

type toolsOutput struct{ Body api.ToolList }

func tools(ctx context.Context, c call, _ *nothing) (*toolsOutput, error) {
	list, problems, err := c.Tools(ctx)
	if err != nil {
		return nil, err
	}
	if list == nil {
		list = []core.Tool{}
	}
	return &toolsOutput{api.ToolList{Items: list, Problems: problems}}, nil
}
