package route

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// Audit lists rows of the audit logs of both halves, by time; they say their
// side, and each log has its own numbers and its own chain. A number of no side
// counts where there is one log only; otherwise it is an error,
// core.CodeInvalidArguments. When the server does not answer, it says so as a
// warning.
func (b *Backend) Audit(ctx context.Context, q api.AuditQuery) ([]core.AuditRow, error) {
	r, away := b.server(ctx, false)
	if away != nil && !b.absent(ctx, away) {
		return nil, away
	}
	if n := max(q.Since.Any, q.Before.Any); n > 0 && (r != nil || away != nil) {
		return nil, rowOfWhich(n)
	}
	rows, err := b.o.Local.Audit(ctx, q)
	if err != nil {
		return nil, err
	}
	var theirs []core.AuditRow
	if r != nil {
		if theirs, away = r.Audit(ctx, q); away != nil && !b.absent(ctx, away) {
			return nil, away
		}
	}
	if away != nil {
		theirs = nil
		b.warn(missing(away))
	}
	return mergeRows(rows, theirs, q), nil
}

// rowOfWhich is the error of a number that could be of either log.
func rowOfWhich(n int64) error {
	number := strconv.FormatInt(n, 10)
	return core.Errorf(core.CodeInvalidArguments,
		"the audit logs of this machine and of the server have numbers of their own: say whose %s is, as in client:%s or server:%s", number, number, number).
		WithNext("pml", "audit", "ls", "--since", "client:"+number)
}

// mergeRows puts the rows of both halves in the order of their times, up to a
// limit (0: none). Rows of one half keep the order of their numbers, so that
// those of a page have none of their half before them that is not in it.
func mergeRows(ours, theirs []core.AuditRow, q api.AuditQuery) []core.AuditRow {
	n := len(ours) + len(theirs)
	if q.Limit > 0 {
		n = min(n, q.Limit)
	}
	sooner := func(a, b core.AuditRow) bool {
		if q.Newest {
			return a.At.After(b.At)
		}
		return a.At.Before(b.At)
	}
	out := make([]core.AuditRow, 0, n)
	for len(out) < n {
		from, side := &ours, core.SideClient
		if len(ours) == 0 || len(theirs) > 0 && sooner(theirs[0], ours[0]) {
			from, side = &theirs, core.SideServer
		}
		row := (*from)[0]
		row.Side, *from = side, (*from)[1:]
		out = append(out, row)
	}
	return out
}

// VerifyAudit checks the chains of both halves. A log that cannot be checked is
// not known to be whole, so the report is not OK when the server does not answer.
func (b *Backend) VerifyAudit(ctx context.Context) (api.AuditReport, error) {
	ours, err := b.o.Local.VerifyAudit(ctx)
	if err != nil {
		return ours, err
	}
	ours.Side = core.SideClient
	r, away := b.server(ctx, false)
	if away == nil && r == nil {
		return reportOn(ours), nil
	}
	var theirs api.AuditReport
	if away == nil {
		theirs, away = r.VerifyAudit(ctx)
	}
	if away != nil {
		if !b.absent(ctx, away) {
			return api.AuditReport{}, away
		}
		theirs = api.AuditReport{Reason: "it could not be checked: " + core.AsError(away).Message}
	}
	theirs.Side = core.SideServer
	return reportOn(ours, theirs), nil
}

// reportOn is the report on several logs.
func reportOn(logs ...api.AuditReport) api.AuditReport {
	out := api.AuditReport{OK: true, Logs: logs}
	for _, log := range logs {
		out.Rows += log.Rows
		if out.OK && !log.OK {
			out.OK, out.Side, out.Bad = false, log.Side, log.Bad
			out.Reason = cmp.Or(strings.TrimSpace(log.Reason), "it does not hold")
		}
	}
	return out
}

// Refused puts an attempt that was refused on this machine into its audit log,
// whichever half the run belongs to.
func (b *Backend) Refused(ctx context.Context, run core.ID, by core.Actor, reason string) error {
	return b.o.Local.Refused(ctx, run, by, reason)
}
