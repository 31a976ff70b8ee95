package route_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/casys-ai/pml/core"
)

// TestWorkflows_Pages: whatever is in the two halves, and however long the pages
// are, every run is listed once and in order; runs that a server gave to this
// machine are in both, and listed once.
func TestWorkflows_Pages(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		b := newBoth(t, false, false)
		var all []core.Run
		for i := range rapid.IntRange(0, 30).Draw(rt, "runs") {
			run := core.Run{ID: core.ID(fmt.Sprintf("%08d", i)), CreatedAt: after(rapid.IntRange(0, 10).Draw(rt, "at")), State: core.RunComplete}
			switch rapid.IntRange(0, 2).Draw(rt, "half") {
			case 0:
				b.local.add(run)
			case 1:
				b.remote.add(run)
			default:
				given := run
				given.Remote = true
				b.local.add(run)
				b.remote.add(given)
			}
			all = append(all, run)
		}
		slices.SortFunc(all, func(a, b core.Run) int {
			if n := b.CreatedAt.Compare(a.CreatedAt); n != 0 {
				return n
			}
			return map[bool]int{true: -1, false: 1}[a.ID > b.ID]
		})
		limit := rapid.IntRange(0, 7).Draw(rt, "limit")
		var got []core.Run
		cursor := ""
		for range len(all) + 2 {
			page, err := b.Workflows(rt.Context(), nil, limit, cursor)
			if err != nil {
				rt.Fatal(err)
			}
			if limit > 0 && len(page.Items) > limit || len(page.Items) == 0 && page.Next != "" {
				rt.Fatalf("a page of %d, limit %d, next %q", len(page.Items), limit, page.Next)
			}
			got = append(got, page.Items...)
			if cursor = page.Next; cursor == "" {
				break
			}
		}
		if len(got) != len(all) {
			rt.Fatalf("%d of %d runs", len(got), len(all))
		}
		for i := range all {
			if got[i].ID != all[i].ID {
				rt.Fatalf("run %d is %s, want %s", i, got[i].ID, all[i].ID)
			}
		}
	})
}

// TestWorkflows_ServerDown: this machine's are listed, and the page says what it
// lacks; when the server is back, the next page has its runs.
func TestWorkflows_ServerDown(t *testing.T) {
	t.Parallel()
	b := newBoth(t, false, false)
	for i := range 4 {
		b.local.add(core.Run{ID: core.ID(fmt.Sprint("l", i)), CreatedAt: after(10 + i)})
		b.remote.add(core.Run{ID: core.ID(fmt.Sprint("r", i)), CreatedAt: after(i)})
	}
	b.remote.down = errDown
	page, err := b.Workflows(t.Context(), nil, 2, "")
	if err != nil || len(page.Items) != 2 || len(page.Warnings) != 1 {
		t.Fatalf("%+v, %v", page, err)
	}
	b.remote.down = nil
	seen := len(page.Items)
	for page.Next != "" {
		if page, err = b.Workflows(t.Context(), nil, 2, page.Next); err != nil || len(page.Warnings) != 0 {
			t.Fatalf("%+v, %v", page, err)
		}
		seen += len(page.Items)
	}
	if seen != 8 {
		t.Errorf("%d of 8 runs", seen)
	}
}

func TestWorkflows_Cursors(t *testing.T) {
	t.Parallel()
	b := newBoth(t, false, false)
	b.local.add(core.Run{ID: "l1", CreatedAt: after(2)}, core.Run{ID: "l0", CreatedAt: after(1)})
	for _, cursor := range []string{"both.", "both.%", "both.e30x", "both.bnVsbA"} {
		page, err := b.Workflows(t.Context(), nil, 1, cursor)
		if err == nil && len(page.Items) > 0 && page.Items[0].ID == "l1" {
			continue // an empty cursor is the beginning
		}
		if core.CodeOf(err) != core.CodeInvalidArguments {
			t.Errorf("%q: %+v, %v", cursor, page, err)
		}
	}
	// The cursor of a list that had one half only, before there was a server.
	page, err := b.Workflows(t.Context(), nil, 1, "l1")
	if err != nil || len(page.Items) != 1 || page.Items[0].ID != "l0" {
		t.Errorf("%+v, %v", page, err)
	}
}
