package storetest

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/casys-ai/pml/core"
)

// testNotices lets many change the document: every version is set once, and another
// process reads what the last one has set.
func testNotices(k *kit) {
	if doc, v, err := k.Store.Notices(k.ctx()); err != nil || doc != nil || v != 0 {
		k.t.Fatalf("%q %d %v", doc, v, err)
	}
	k.wantCode(k.Store.SetNotices(k.ctx(), []byte("2"), 2), core.CodeNotWaiting)
	var wg sync.WaitGroup
	var mu sync.Mutex
	set := map[int64]string{}
	for who := range 8 {
		wg.Go(func() {
			for try := range 5 {
				_, v, err := k.Store.Notices(k.ctx())
				mine := fmt.Sprintf("%d.%d", who, try)
				if err == nil {
					err = k.Store.SetNotices(k.ctx(), []byte(mine), v+1)
				}
				mu.Lock()
				switch {
				case err != nil && core.CodeOf(err) != core.CodeNotWaiting:
					k.t.Error(err)
				case err == nil && set[v+1] != "":
					k.t.Errorf("version %d was set by %s and by %s", v+1, set[v+1], mine)
				case err == nil:
					set[v+1] = mine
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	s := k.another()
	doc, v, err := s.Notices(k.ctx())
	if err != nil || v != int64(len(set)) || v == 0 || string(doc) != set[v] {
		k.t.Fatalf("%v: version %d is %q after %d changes", err, v, doc, len(set))
	}
	large := bytes.Repeat([]byte("é"), 1<<19)
	for range 2 { // again is no error
		if err := s.SetNotices(k.ctx(), large, v+1); err != nil {
			k.t.Fatal(err)
		}
	}
	k.wantCode(s.SetNotices(k.ctx(), doc, v+1), core.CodeNotWaiting)
	if doc, _, err := k.Store.Notices(k.ctx()); err != nil || !bytes.Equal(doc, large) {
		k.t.Errorf("%v: %d bytes", err, len(doc))
	}
}
