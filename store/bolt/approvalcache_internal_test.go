package bolt

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
)

// An approval of the cache is what decoding its bytes gives; one of which that is
// not sure, and one that was acted upon, is not in it.
func TestApprovalCache(t *testing.T) {
	t.Parallel()
	now := time.Now() // with a monotonic reading
	later := now.Add(time.Hour).UTC()
	for name, tt := range map[string]struct {
		change func(r *approvalRow)
		cached bool
	}{
		"Plain":   {func(*approvalRow) {}, true},
		"Context": {func(r *approvalRow) { r.context = part{data: []byte(`{"n":1}`)} }, true},
		"Expires": {func(r *approvalRow) { r.ExpiresAt = &later }, true},
		"Calls":   {func(r *approvalRow) { r.CallIDs = []string{"c1"} }, true},
		"Decided": {func(r *approvalRow) {
			r.State, r.DecidedBy = core.ApprovalDenied, &core.DecidedBy{Actor: core.Actor{Who: "ann"}, At: now.UTC(), Reason: "no"}
		}, true},
		"Used":       {func(r *approvalRow) { r.Used, r.State = true, core.ApprovalApproved }, false},
		"Superseded": {func(r *approvalRow) { r.State = core.ApprovalSuperseded }, false},
		"Answer":     {func(r *approvalRow) { r.Answer = &core.Answer{Result: json.RawMessage(`{ }`)} }, false},
		"NoCalls":    {func(r *approvalRow) { r.CallIDs = []string{} }, false},
		"NoUTF8":     {func(r *approvalRow) { r.Description = "\xff" }, false},
		"CallNoUTF8": {func(r *approvalRow) { r.CallIDs = []string{"\xff"} }, false},
		"Elsewhere":  {func(r *approvalRow) { r.CreatedAt = now.In(time.FixedZone("", 3600)) }, false},
		"Large":      {func(r *approvalRow) { r.context = part{data: make([]byte, maxCachedSize)} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var c approvalCache
			base := func() *approvalRow {
				return &approvalRow{Approval: core.Approval{ID: "a", RunID: "r", State: core.ApprovalOpen, CreatedAt: now.UTC(), Description: "allow it",
					Context: json.RawMessage("null")}}
			}
			c.put(base(), []byte("old"))
			r := base()
			tt.change(r)
			raw, err := r.encode()
			if err != nil {
				t.Fatal(err)
			}
			c.put(r, raw)
			if _, ok := c.get("a", append([]byte{' '}, raw...)); ok {
				t.Error("another process's approval is taken for this one")
			}
			got, ok := c.get("a", raw)
			if ok != tt.cached {
				t.Fatalf("in the cache: %v, want %v", ok, tt.cached)
			}
			if !ok {
				return
			}
			want, err := decodeApproval(raw)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(approvalRow{}, part{})); diff != "" {
				t.Error(diff)
			}
			if got.CreatedAt != want.CreatedAt || got.ExpiresAt != nil && *got.ExpiresAt != *want.ExpiresAt || got.DecidedBy != nil && got.DecidedBy.At != want.DecidedBy.At {
				t.Error("a time has another form than a decoded one")
			}
			spoil(got)
			if again, _ := c.get("a", raw); cmp.Diff(want, again, cmp.AllowUnexported(approvalRow{}, part{})) != "" {
				t.Error("a caller changed the cache")
			}
		})
	}
}

// spoil changes whatever can be reached from a row.
func spoil(r *approvalRow) {
	if r.ExpiresAt != nil {
		*r.ExpiresAt = time.Time{}
	}
	if r.DecidedBy != nil {
		r.DecidedBy.Who = "bob"
	}
	if len(r.CallIDs) > 0 {
		r.CallIDs[0] = "c2"
	}
	if len(r.context.data) > 0 {
		r.context.data[0] = 'x'
	}
}

func TestApprovalCache_Bound(t *testing.T) {
	t.Parallel()
	var c approvalCache
	for i := range 3 * maxCached {
		c.put(&approvalRow{Approval: core.Approval{ID: core.ID(time.Duration(i).String()), State: core.ApprovalOpen}}, nil)
	}
	if len(c.rows) > maxCached {
		t.Errorf("%d approvals are kept, more than %d", len(c.rows), maxCached)
	}
}

// The newest audit row is known by its bytes: any other is decoded.
func TestApprovalCache_Newest(t *testing.T) {
	t.Parallel()
	var c approvalCache
	c.audited(core.AuditRow{Seq: 7, Hash: "known"}, []byte(`{"seq":1}`))
	for raw, want := range map[string]core.AuditRow{`{"seq":1}`: {Seq: 7, Hash: "known"}, `{"seq":2,"hash":"read"}`: {Seq: 2, Hash: "read"}} {
		if got, err := c.newest([]byte(raw)); err != nil || got != want {
			t.Errorf("%s: %+v %v", raw, got, err)
		}
	}
}

// What is kept is nobody else's: who put it, or got it, may do with it what it wants.
func TestApprovalCache_IsItsOwn(t *testing.T) {
	t.Parallel()
	var c approvalCache
	r := &approvalRow{Approval: core.Approval{ID: "a", State: core.ApprovalOpen, CallIDs: []string{"c1"}}, context: part{data: []byte(`{"n":1}`)}}
	raw := []byte("row")
	c.put(r, raw)
	for range 2 {
		r.context.data[5], r.CallIDs[0] = '2', "c2"
		var ok bool
		if r, ok = c.get("a", raw); !ok || string(r.context.data) != `{"n":1}` || r.CallIDs[0] != "c1" {
			t.Fatalf("%v %s %v", ok, r.context.data, r.CallIDs)
		}
	}
}
