package server

import (
	"context"
	"net/http"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

type haltInput struct{ Body *api.HaltBody }

type resumeInput struct{ Body *api.ResumeBody }

func (s *Server) addHalt() {
	add(s, op("halts", http.MethodGet, prefix+"/halt", "Who has halted all calls: no item, or one"), halts)
	add(s, op("halt", http.MethodPost, prefix+"/halt", "Halt all calls: none begins any more, those under way may end"), haltCalls)
	add(s, op("resume", http.MethodPost, prefix+"/resume", "Let calls go on that were halted; a person's to do: on the socket from pml at a terminal, or with the PIN"), resumeCalls)
}

func halts(ctx context.Context, c call, _ *nothing) (*page[core.Halt], error) {
	list, err := c.Halts(ctx)
	return pageOf(list, ""), err
}

func haltCalls(ctx context.Context, c call, in *haltInput) (*page[core.Halt], error) {
	var b api.HaltBody
	if in.Body != nil {
		b = *in.Body
	}
	list, err := c.HaltCalls(ctx, c.scope.By, b.Reason)
	return pageOf(list, ""), err
}

func resumeCalls(ctx context.Context, c call, in *resumeInput) (*page[core.Halt], error) {
	req := api.ResumeRequest{By: c.scope.By}
	if b := in.Body; b != nil {
		req.Reason, req.Pin = b.Reason, b.Pin
		if b.Presence == core.PresenceTerminal && atTerminal(ctx) {
			req.Presence = core.PresenceTerminal
		}
	}
	list, err := c.ResumeCalls(ctx, req)
	return pageOf(list, ""), err
}
