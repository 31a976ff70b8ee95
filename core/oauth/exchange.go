package oauth

import (
	"context"

	"golang.org/x/oauth2"

	"github.com/casys-ai/pml/core"
)

// complete turns the code into tokens and keeps them. Killed after the server's
// answer and before the rename, the person must consent once more, because a
// code is good for one request: so nothing but writing is done in between.
func (f *Flow) complete(code string) error {
	ctx, cancel := context.WithTimeout(context.Background(), refreshTime)
	defer cancel()
	return f.c.locked(ctx, f.r, func() error {
		var now pending
		ok, err := f.c.read(f.c.flowFile(f.r), &now)
		switch {
		case err != nil:
			return err
		case !ok || now.ID != f.p.ID || now.Failed != nil:
			return core.Errorf(core.CodeAuth, "connecting %s was ended elsewhere, or begun anew; begin it again", f.r.id)
		case !now.open(f.c.o.Clock.Now()):
			return f.expired()
		}
		d, err := f.c.draft(f.c.credentialsFile(f.r))
		if err != nil {
			return err
		}
		defer d.drop()
		k, err := f.exchange(ctx, code)
		if err != nil {
			return err
		}
		if err := d.commit(k); err != nil {
			return err
		}
		f.c.remember(k)
		// Killed here, or unable to remove it, the flow's file is of no use to
		// anybody: the grant that it replaces is gone.
		if err := f.c.remove(f.c.flowFile(f.r)); err != nil {
			f.c.o.Logger.Warn("cannot remove a flow that is complete", "server", f.r.id, "err", err)
		}
		return nil
	})
}

// exchange asks for the tokens.
func (f *Flow) exchange(ctx context.Context, code string) (*credentials, error) {
	p := f.p
	conf := p.Client.config(p.TokenEndpoint)
	conf.RedirectURL = p.Redirect
	k := p.credentials()
	k.Grant = p.ID
	asked := f.c.o.Clock.Now()
	tok, err := conf.Exchange(f.c.withHTTP(ctx), code, oauth2.VerifierOption(p.Verifier), oauth2.SetAuthURLParam("resource", p.Resource))
	if err == nil {
		err = k.take(tok, asked)
	}
	if err == nil {
		return k, nil
	}
	failure := tokenError(p.TokenEndpoint, err, code, p.Verifier, p.Client.Secret)
	if failure.code == "invalid_client" && !p.Client.Given {
		f.c.forget(f.r, p.Client.ID)
	}
	return nil, p.Client.explain(failure)
}

// forget drops a registration that the server does not know any more, so that
// the next flow registers again. The lock is held.
func (c *Client) forget(r resource, id string) {
	k, err := c.load(r)
	if err == nil && k != nil && !k.usable() && k.Client != nil && k.Client.ID == id {
		k.Client = nil
		err = c.write(c.credentialsFile(r), k)
	}
	if err != nil {
		c.o.Logger.Warn("cannot drop a registration that was refused", "server", r.id, "err", err)
	}
}

// fail writes down how the flow ended, for others who wait for it. The state
// goes: nothing answers this flow any more.
func (f *Flow) fail(why error) {
	ctx, cancel := context.WithTimeout(context.Background(), lockTime)
	defer cancel()
	err := f.c.locked(ctx, f.r, func() error {
		var now pending
		if ok, err := f.c.read(f.c.flowFile(f.r), &now); err != nil || !ok || now.ID != f.p.ID {
			return err
		}
		now.State, now.Verifier, now.Failed = "", "", core.AsError(why)
		return f.c.write(f.c.flowFile(f.r), now)
	})
	if err != nil {
		f.c.o.Logger.Warn("cannot write down how a flow ended", "server", f.r.id, "err", err)
	}
}
