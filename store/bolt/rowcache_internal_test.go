package bolt

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
)

// A row of the cache is what decoding its bytes gives; rows of which that is not
// sure are not in it.
func TestRowCache(t *testing.T) {
	t.Parallel()
	now := time.Now() // with a monotonic reading
	later := now.Add(time.Hour).UTC()
	base := func() runRow {
		return runRow{Run: core.Run{ID: "r", State: core.RunRunning, CreatedAt: now.UTC(), UpdatedAt: now.UTC(), ActiveMS: 1.5}, LastEvent: 4}
	}
	for name, tt := range map[string]struct {
		change func(r *runRow)
		cached bool
	}{
		"Plain":     {func(*runRow) {}, true},
		"Expires":   {func(r *runRow) { r.State, r.ExpiresAt = core.RunWaiting, &later }, true},
		"Ended":     {func(r *runRow) { r.State = core.RunComplete }, false},
		"Abort":     {func(r *runRow) { r.Abort = &core.AbortRequest{At: now} }, false},
		"Error":     {func(r *runRow) { r.Error = core.Errorf(core.CodeAborted, "x") }, false},
		"NoUTF8":    {func(r *runRow) { r.Intent = "\xff" }, false},
		"Elsewhere": {func(r *runRow) { r.CreatedAt = now.In(time.FixedZone("", 3600)) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var c rowCache
			old := base()
			c.put(&old, []byte("old"))
			r := base()
			tt.change(&r)
			raw, err := marshal(&r)
			if err != nil {
				t.Fatal(err)
			}
			c.put(&r, raw)
			if _, ok := c.get("r", append([]byte{' '}, raw...)); ok {
				t.Error("another process's row is taken for this one")
			}
			got, ok := c.get("r", raw)
			if ok != tt.cached {
				t.Fatalf("in the cache: %v, want %v", ok, tt.cached)
			}
			if !ok {
				return
			}
			var want runRow
			if err := unmarshal(raw, &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, *got, cmp.AllowUnexported(runRow{})); diff != "" {
				t.Error(diff)
			}
			if got.CreatedAt != want.CreatedAt || got.UpdatedAt != want.UpdatedAt || got.ExpiresAt != nil && *got.ExpiresAt != *want.ExpiresAt {
				t.Error("a time has another form than a decoded one")
			}
			if got.ExpiresAt != nil {
				*got.ExpiresAt = now // must not reach the cache
				if again, _ := c.get("r", raw); !again.ExpiresAt.Equal(later) {
					t.Error("a caller changed the cache")
				}
			}
		})
	}
}

func TestRowCache_Bound(t *testing.T) {
	t.Parallel()
	var c rowCache
	for i := range 3 * maxCached {
		c.put(&runRow{Run: core.Run{ID: core.ID(time.Duration(i).String()), State: core.RunRunning}}, nil)
	}
	if len(c.rows) > maxCached {
		t.Errorf("%d rows are kept, more than %d", len(c.rows), maxCached)
	}
}
