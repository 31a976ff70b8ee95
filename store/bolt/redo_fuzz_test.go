package bolt

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	bbolt "go.etcd.io/bbolt"
)

// FuzzRemake: any bytes as a record are made or refused, never a panic; and what
// was made leaves a whole file.
func FuzzRemake(f *testing.F) {
	var c changes
	for _, one := range []change{
		{kind: changeCreate, where: place{bucketRun, []byte("id")}},
		{kind: changeCreate, where: ofRun("id", bucketJournal)},
		{kind: changePut, where: ofRun("id", bucketJournal), key: seqKey(1), value: []byte("record")},
		{kind: changePut, where: top(bucketRuns), key: []byte("id"), value: bytes.Repeat([]byte("x"), 5000)},
		{kind: changeCount, where: top(bucketEvents), value: be64(7)},
		{kind: changeDelete, where: top(bucketRuns), key: []byte("id")},
		{kind: changeDrop, where: place{bucketRun, []byte("id")}},
	} {
		c.add(one)
		f.Add(bytes.Clone(c.raw))
	}
	f.Add(c.raw[:len(c.raw)-1])
	f.Add([]byte{changePut, 4, 'r', 'u', 'n', 's', 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{changeDrop, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, raw []byte) {
		db, err := bbolt.Open(filepath.Join(t.TempDir(), "x.db"), 0o600, &bbolt.Options{NoSync: true, NoGrowSync: true})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if err := db.Update(createBuckets); err != nil {
			t.Fatal(err)
		}
		refused := errors.New("refused")
		err = db.Update(func(tx *bbolt.Tx) error {
			if err := remake(tx, raw); err != nil {
				return errors.Join(refused, err)
			}
			return nil
		})
		if err != nil && !errors.Is(err, refused) {
			t.Fatalf("what was made cannot be committed: %v", err)
		}
		if err := db.View(func(tx *bbolt.Tx) error {
			for err := range tx.Check() {
				return err
			}
			return nil
		}); err != nil {
			t.Fatalf("the file is not whole: %v", err)
		}
	})
}
