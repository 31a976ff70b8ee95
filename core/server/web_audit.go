package server

import (
	"context"
	"net/http"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// nobody is in the audit log a browser that is not signed in. No key has such a name.
const nobody = "(not signed in)"

// denial is why a page does not do what a browser asks for. The code tells denials apart
// in the audit log, where the text may name what somebody has sent.
type denial struct {
	status    int
	code, why string
}

// denied puts an attempt to change something that was refused into the audit log, at most
// one row a minute for each reason, form and visitor. Who only looks is not in there. It
// stands without its row, too.
func (b *web) denied(r *http.Request, code, why string) {
	if r.Method != http.MethodPost {
		return
	}
	_, form := b.mux.Handler(r) // what was asked for, as this program calls it
	scope := api.Scope{By: core.Actor{Who: nobody, Via: core.ViaPage}}
	if s, ok, err := b.sessionOf(r); err == nil && ok {
		scope = b.scopeOf(s)
	}
	ctx := context.WithoutCancel(r.Context())
	half, err := b.s.o.Half(scope)
	if visits, ok := half.(api.Visits); ok && err == nil {
		err = visits.RefusedVisit(ctx, scope.By, code+" "+form, form+" on the pages: "+why)
	}
	if err != nil {
		b.s.log.WarnContext(ctx, "a refusal is not in the audit log yet", "error", core.AsError(err))
	}
}

// visited puts into the audit log what a session was begun or ended for. It says so if
// that cannot be there.
func (b *web) visited(ctx context.Context, s session, code, what string) error {
	half, err := b.s.o.Half(b.scopeOf(s))
	if visits, ok := half.(api.Visits); ok && err == nil {
		err = visits.Visited(ctx, b.scopeOf(s).By, code, what)
	}
	return err
}
