package runs

import (
	"context"
	"fmt"
	"strings"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// How far pml looks for runs by words or by a name: nobody remembers the name of a run
// that is older, and each page is a question to the store.
const (
	namedPage = 200
	namedRuns = 5000
	namedShow = 6 // that an error names
)

// eachRun calls see with runs from the newest on, until see wants no more. It returns
// the first page, with the cursor of what it has not looked at.
func eachRun(ctx context.Context, b app.Backend, states []core.RunState, cursor string, see func(core.Run) bool) (first api.Page[core.Run], err error) {
	for n := 0; n < namedRuns && (n == 0 || cursor != ""); n += namedPage {
		page, err := b.Workflows(ctx, states, namedPage, cursor)
		if err != nil {
			return first, err
		}
		if n == 0 {
			first = page
		}
		for _, r := range page.Items {
			if !see(r) {
				return first, nil
			}
		}
		cursor = page.Next
	}
	first.Next = cursor
	return first, nil
}

// runsLike is the page of runs that show every word, in any case of letters: the words
// that the screen's / takes, without its keys.
func runsLike(ctx context.Context, b app.Backend, o listOptions, states []core.RunState) (api.Page[core.Run], error) {
	found := []core.Run{}
	page, err := eachRun(ctx, b, states, o.cursor, func(r core.Run) bool {
		if showsWords(r, o.words) {
			found = append(found, r)
		}
		return len(found) <= o.limit
	})
	page.Items = found
	if len(found) > o.limit {
		page.Items = found[:o.limit]
		page.Next = string(found[o.limit-1].ID)
	}
	return page, err
}

func showsWords(r core.Run, words []string) bool {
	shown := strings.ToLower(strings.Join([]string{r.Title(), string(r.ID), string(r.State), r.RequestedBy.Label(), r.Workspace}, "\n"))
	for _, w := range words {
		if !strings.Contains(shown, strings.ToLower(w)) {
			return false
		}
	}
	return true
}

// runsNamed are the runs of this workspace that have a name, newest first.
func runsNamed(ctx context.Context, b app.Backend, name string) ([]core.Run, error) {
	paths, err := b.Paths(ctx)
	if err != nil {
		return nil, err
	}
	var found []core.Run
	_, err = eachRun(ctx, b, nil, "", func(r core.Run) bool {
		if r.Workspace == paths.Workspace && strings.EqualFold(r.Title(), strings.TrimSpace(name)) {
			found = append(found, r)
		}
		return true
	})
	return found, err
}

// findRun is resolveRun that also takes the name of a run, where one run alone of this
// workspace has it. It is for commands that look: what decides, ends or removes
// something wants an id, since a name may mean another run tomorrow.
func findRun(ctx context.Context, a *app.App, b app.Backend, text string) (core.ID, error) {
	id, _, err := b.Resolve(ctx, text)
	if core.CodeOf(err) != core.CodeNotFound {
		return id, err
	}
	if e := core.AsError(err); len(e.Ambiguous) > 0 {
		return "", err
	}
	found, ferr := runsNamed(ctx, b, text)
	switch {
	case ferr != nil:
		return "", err
	case len(found) == 1:
		return found[0].ID, nil
	case len(found) > 1:
		return "", app.Usagef("%d runs of this workspace are called %q; give the ID of one: %s",
			len(found), core.Visible(text, 60, false), listedRuns(found)).WithNext("pml", "workflows", "ls", text)
	}
	_, _, err = resolve(ctx, a, b, text)
	return "", err
}

// listedRuns names runs within an error.
func listedRuns(list []core.Run) string {
	var each []string
	for i, r := range list {
		if i == namedShow {
			each = append(each, fmt.Sprintf("and %d more", len(list)-i))
			break
		}
		each = append(each, fmt.Sprintf("%s (%s, %s)", r.ID.Short(), r.State, layout.Stamp(r.CreatedAt)))
	}
	return strings.Join(each, ", ")
}
