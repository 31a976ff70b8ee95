package bolt

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// rowOf encodes so many events, numbered from the one after a number.
func rowOf(t *testing.T, n int, after int64) (row []byte, want []core.Event) {
	t.Helper()
	r := &runRow{Run: core.Run{ID: "run-1", Owner: "ann"}}
	list := make([]core.Event, n)
	for i := range list {
		list[i] = core.Event{Type: core.EventTaskLog, At: time.Unix(int64(i), 0).UTC(), Message: strconv.Itoa(i)}
	}
	row, err := eventRow(r, list, after)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range list {
		e.Seq, e.RunID, e.Owner = after+1+int64(i), r.ID, r.Owner
		want = append(want, e)
	}
	return row, want
}

func TestEventRow(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, packedMost} {
		row, want := rowOf(t, n, 41)
		got, err := addMatching(nil, row, store.EventFilter{RunID: "run-1"})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d events: %s", n, diff)
		}
		if (row[0] == packedMark) != (n > 1) {
			t.Errorf("the row of %d events begins with %#x", n, row[0])
		}
		for cut := range row {
			if n > 1 && cut == 1+1+len("run-1") { // no event at all
				continue
			}
			if got, err := addMatching(nil, row[:cut], store.EventFilter{}); err == nil && len(got) == len(want) {
				t.Errorf("%d events, cut at %d of %d: all are there", n, cut, len(row))
			}
		}
	}
}

func TestAddMatching(t *testing.T) {
	t.Parallel()
	row, all := rowOf(t, 5, 10)
	for name, tt := range map[string]struct {
		f    store.EventFilter
		want []core.Event
	}{
		"All":       {store.EventFilter{}, all},
		"After":     {store.EventFilter{After: 12}, all[2:]},
		"AfterAll":  {store.EventFilter{After: 15}, nil},
		"Owner":     {store.EventFilter{Owner: "ann"}, all},
		"Another":   {store.EventFilter{Owner: "bob"}, nil},
		"OtherRun":  {store.EventFilter{RunID: "run-2"}, nil},
		"Type":      {store.EventFilter{Types: []core.EventType{core.EventTaskLog}}, all},
		"OtherType": {store.EventFilter{Types: []core.EventType{core.EventTaskStart}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := addMatching(nil, row, tt.f)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// FuzzCutEvents: a row of any bytes is an error or events, never a panic.
func FuzzCutEvents(f *testing.F) {
	f.Add([]byte{packedMark, 1, 'r', 2, '{', '}', 2, '{', '}'})
	f.Add([]byte{1, 'r', '{', '}'})
	f.Add([]byte{packedMark})
	f.Add([]byte{packedMark, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, row []byte) {
		_, _, _ = cutEvents(row)
		_, _ = addMatching(nil, row, store.EventFilter{})
	})
}

func TestRunRow_IsThatOfEncodingJSON(t *testing.T) {
	t.Parallel()
	type plain runRow  // without the methods of a row
	type both struct { // embedded, its fields are those of the row
		core.Run
		FirstEvent int64 `json:"first_event,omitempty"`
		LastEvent  int64 `json:"last_event,omitempty"`
		HasInput   bool  `json:"has_input,omitempty"`
		HasResult  bool  `json:"has_result,omitempty"`
		Undone     int   `json:"undone,omitempty"`
		Replanned  bool  `json:"replanned,omitempty"`
	}
	for _, r := range []runRow{
		{}, {Run: core.Run{ID: "r"}, FirstEvent: 1, LastEvent: 2, HasInput: true, HasResult: true, Undone: 3, Replanned: true},
	} {
		want, err := json.Marshal(both(plain(r)))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := store.Encode(&r); err != nil || string(got) != string(want) {
			t.Errorf("%v:\n%s\nwant\n%s", err, got, want)
		}
	}
}
