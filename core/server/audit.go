package server

import (
	"context"
	"net/http"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

type auditInput struct {
	Since     int64  `query:"since" minimum:"0" doc:"Rows after this sequence number"`
	Before    int64  `query:"before" minimum:"0" doc:"Rows before this sequence number"`
	Newest    bool   `query:"newest" doc:"Newest first"`
	From      string `query:"from" doc:"Rows of this time or later: how long ago (7d), a day (2026-11-20) or a moment (RFC 3339)"`
	Until     string `query:"until" doc:"Rows before this time"`
	By        string `query:"by" doc:"A part of who decided: user, way or agent"`
	Tool      string `query:"tool" doc:"A part of the tool's name; finds also rules written or removed for it"`
	Outcome   string `query:"outcome" doc:"approved, denied, expired, superseded or refused; aborted, halted or resumed for what was done so"`
	Type      string `query:"type" doc:"The type of the approval; rule for rules written or removed, change for all changes of files"`
	Workspace string `query:"workspace" doc:"A folder with all below it, or the last name of one"`
	Approval  string `query:"approval" doc:"An approval's id or the first characters of it"`
	Args      bool   `query:"args" doc:"With the arguments that were decided about, as far as the approval is kept"`
	Limit     int    `query:"limit" minimum:"1" maximum:"1000" default:"1000"`
}

// query is what is asked for; a filter that makes no sense is
// core.CodeInvalidArguments.
func (in *auditInput) query(now time.Time) (api.AuditQuery, error) {
	q := api.AuditQuery{
		Since: api.Since{Any: in.Since}, Before: api.Since{Any: in.Before}, Newest: in.Newest, Args: in.Args, Limit: in.Limit + 1,
	}
	for _, set := range [][2]string{
		{"since", in.From}, {"until", in.Until}, {"by", in.By}, {"tool", in.Tool}, {"outcome", in.Outcome},
		{"type", in.Type}, {"workspace", in.Workspace}, {"approval", in.Approval},
	} {
		if set[1] == "" {
			continue
		}
		if err := q.Set(set[0], set[1], now); err != nil {
			return q, err
		}
	}
	return q, nil
}

func (s *Server) addAudit() {
	add(s, op("audit", http.MethodGet, prefix+"/audit", "Who decided what, in order; a key sees the decisions about its own runs"), audit)
	add(s, op("verify-audit", http.MethodGet, prefix+"/audit/verify", "Check that no row of the whole audit log was changed, added or taken out"), verifyAudit)
}

type adoptPinInput struct {
	Body struct {
		Old string `json:"old,omitempty" doc:"The PIN that the server wants so far"`
	}
}

type pinAdopted struct {
	Body struct {
		Needed bool `json:"needed" doc:"Whether approvals need a PIN now"`
	}
}

// addPin: on the socket only, like everything that is the machine's own.
func (s *Server) addPin() {
	add(s, op("adopt-pin", http.MethodPost, prefix+"/pin", "Make the server's store want the PIN of its configuration, given the one that it wants so far; on the socket only"), adoptPin)
}

func adoptPin(ctx context.Context, c call, in *adoptPinInput) (*pinAdopted, error) {
	p, ok := c.Backend.(PinKeeper)
	if !ok || !listenerOf(ctx).socket {
		return nil, core.Errorf(core.CodePermissionDenied, "the PIN is set on the machine of the server, on its socket; nothing was changed").WithNext("pml", "config", "pin")
	}
	if err := p.AdoptPin(ctx, in.Body.Old, atTerminal(ctx) || !seesTerminals); err != nil {
		return nil, err
	}
	var out pinAdopted
	var err error
	out.Body.Needed, err = p.NeedsPin(ctx)
	return &out, err
}

func audit(ctx context.Context, c call, in *auditInput) (*page[core.AuditRow], error) {
	q, err := in.query(c.s.o.Clock.Now())
	if err != nil {
		return nil, err
	}
	rows, err := c.Audit(ctx, q)
	if err != nil {
		return nil, err
	}
	next := ""
	if len(rows) > in.Limit {
		rows = rows[:in.Limit]
		next = number(rows[in.Limit-1].Seq)
	}
	return pageOf(rows, next), nil
}

type auditReport struct{ Body api.AuditReport }

func verifyAudit(ctx context.Context, c call, _ *nothing) (*auditReport, error) {
	r, err := c.VerifyAudit(ctx)
	if err != nil {
		return nil, err
	}
	return &auditReport{r}, nil
}

// unknownTo puts a decision about what the caller does not have into the audit
// log; run is the one that it has, if any.
func (c call) unknownTo(ctx context.Context, run core.ID, text string, err error) error {
	a, ok := c.Backend.(api.Refusals)
	if !ok || core.CodeOf(err) != core.CodeNotFound {
		return err
	}
	reason := string(core.CodeNotFound) + `: a decision about "` + core.Visible(text, 64, false) + `", which is not there`
	if lost := a.Refused(ctx, run, core.Actor{}, reason); lost != nil {
		c.s.o.Logger.Warn("a refusal is not in the audit log yet", "error", core.AsError(lost))
	}
	return err
}
