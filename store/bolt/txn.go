package bolt

import (
	"encoding/binary"
	"math"
	"runtime/debug"
	"time"

	bbolt "go.etcd.io/bbolt"

	"github.com/casys-ai/pml/core"
)

// The buckets. Keys are ids, numbers in big-endian order, or both.
var (
	bucketMeta      = []byte("meta")              // "version" → number
	bucketRuns      = []byte("runs")              // id → runRow
	bucketRun       = []byte("run")               // id → a bucket of its own, below
	bucketCreated   = []byte("runs_by_created")   // created_at, id → labels
	bucketRunExpiry = []byte("runs_by_expiry")    // expires_at, id → nothing; runs that can expire
	bucketKeys      = []byte("idempotency_keys")  // hash of workspace and key → id
	bucketApprovals = []byte("approvals")         // id → approvalRow
	bucketByRun     = []byte("approvals_by_run")  // run id, 0, id → nothing
	bucketOpen      = []byte("approvals_by_open") // expires_at, id → nothing; open ones
	bucketEvents    = []byte("events")            // seq → event
	bucketAudit     = []byte("audit")             // seq → row
	bucketState     = []byte("runs_by_state")     // state, 0, created_at, id → labels
	bucketTodo      = []byte("runs_todo")         // created_at, id → nothing; see hasWork
	bucketFlowRuns  = []byte("flow_runs")         // flow (flowPrefix), started_at, id → flow run
	bucketFlowVars  = []byte("flow_variables")    // flow (flowPrefix) → variables

	// Within a run's bucket: sub-buckets, so that a commit of records does not
	// write a large program again that would share their page.
	bucketJournal     = []byte("journal")     // seq → record
	bucketPrograms    = []byte("programs")    // version → program
	bucketCheckpoints = []byte("checkpoints") // journal seq, id → checkpoint
	keyResult         = []byte("result")
	keyInput          = []byte("input")

	keyVersion = []byte("version")
	keyGuard   = []byte("guard")   // in meta: what decisions need
	keyNotices = []byte("notices") // in meta: version, then what is to be sent to people
	keyHalt    = []byte("halt")    // in meta: who has halted calls
	keyIndexed = []byte("indexed") // in meta: the last commit that kept the indexes
)

// formatVersion is the format that this package writes.
const formatVersion = 4

// migrations lead from a format to the next: migrations[0] sets up an empty
// file as format 1. Within a major version of pml formats only grow. Format 2 has
// a guard in meta: nothing is to be done for it, but a pml that does not know of it
// must not decide. Format 3 has flow runs, and calls in the journal with what flows
// made of them: a pml that does not know of that would send other arguments. Format 4
// may have a halt in meta: a pml that does not know of it would make calls all the same.
var migrations = []func(tx *bbolt.Tx) error{createBuckets, nothingToDo, createFlowBuckets, nothingToDo}

func nothingToDo(*bbolt.Tx) error { return nil }

func createBuckets(tx *bbolt.Tx) error {
	for _, name := range [][]byte{
		bucketMeta, bucketRuns, bucketRun, bucketCreated, bucketRunExpiry, bucketKeys,
		bucketApprovals, bucketByRun, bucketOpen, bucketEvents, bucketAudit, bucketState, bucketTodo,
	} {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	return stamp(tx)
}

func createFlowBuckets(tx *bbolt.Tx) error {
	for _, name := range [][]byte{bucketFlowRuns, bucketFlowVars} {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	return nil
}

type format struct {
	version uint64
	ready   bool
}

// inspect reads the format of an open file.
func inspect(h *handle, path string) (f format, err error) {
	err = guarded(func() error {
		return h.db.View(func(tx *bbolt.Tx) error {
			b := tx.Bucket(bucketMeta)
			if b == nil {
				return nil
			}
			v := b.Get(keyVersion)
			if len(v) != 8 {
				return &damage{reason: "it has no format version"}
			}
			f.version = binary.BigEndian.Uint64(v)
			return nil
		})
	})
	if err == nil && f.version > formatVersion {
		err = newer(path, f.version)
	}
	f.ready = f.version == formatVersion
	return f, err
}

// guarded makes a panic or a fault of bbolt on a damaged file an error.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = &damage{reason: panicText(p)}
		}
	}()
	return f()
}

// migrate brings a file to the present format in one transaction.
func migrate(h *handle, from uint64) error {
	return h.db.Update(func(tx *bbolt.Tx) error {
		for _, step := range migrations[from:] {
			if err := step(tx); err != nil {
				return err
			}
		}
		return tx.Bucket(bucketMeta).Put(keyVersion, be64(formatVersion))
	})
}

// txn is the transaction of a batch as operations see it.
type txn struct {
	tx      *bbolt.Tx
	now     time.Time
	runners registry
	// indexed is set when the indexes of runs say how things are.
	indexed bool
	// wrote is set when the present operation has begun to write, changed when
	// any of the batch has.
	wrote, changed bool
	halt           **core.Halt // as halted has read it; nil before
}

func (t *txn) bucket(name []byte) *bbolt.Bucket { return t.tx.Bucket(name) }

// put and del change a bucket of the database; one that is not there is damage.
func (t *txn) put(b *bbolt.Bucket, key, value []byte) error {
	t.wrote, t.changed = true, true
	if b == nil {
		return errNoBucket
	}
	return b.Put(key, value)
}

func (t *txn) del(b *bbolt.Bucket, key []byte) error {
	t.wrote, t.changed = true, true
	if b == nil {
		return errNoBucket
	}
	return b.Delete(key)
}

// createRun makes the bucket of a new run and those within it.
func (t *txn) createRun(id core.ID) (*bbolt.Bucket, error) {
	t.wrote, t.changed = true, true
	b, err := t.bucket(bucketRun).CreateBucket([]byte(id))
	for _, part := range [][]byte{bucketJournal, bucketPrograms, bucketCheckpoints} {
		if err == nil {
			_, err = b.CreateBucket(part)
		}
	}
	return b, err
}

var errNoBucket = &damage{reason: "a bucket is missing"}

// runBucket is the bucket of one run, nil when there is none.
func (t *txn) runBucket(id core.ID) *bbolt.Bucket { return t.bucket(bucketRun).Bucket([]byte(id)) }

func be64(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func seqKey(n int64) []byte { return be64(uint64(n)) }

func keySeq(k []byte) int64 { return int64(binary.BigEndian.Uint64(k)) }

// timeKey orders by time and then by id. No time at all comes last.
func timeKey(at *time.Time, id core.ID) []byte {
	n := ^uint64(0)
	if at != nil {
		n = timeNumber(*at)
	}
	return append(be64(n), id...)
}

// timeNumber maps a time to a number that keeps the order, also before 1970. One
// that nanoseconds cannot count is the first or the last that they can.
func timeNumber(at time.Time) uint64 {
	switch {
	case at.Before(time.Unix(0, math.MinInt64)):
		return 0
	case at.After(time.Unix(0, math.MaxInt64)):
		return math.MaxUint64
	}
	return uint64(at.UnixNano()) ^ 1<<63
}

func timeKeyID(k []byte) core.ID { return core.ID(k[8:]) }

// due reports whether a time key lies at or before a time.
func due(k []byte, now time.Time) bool {
	return binary.BigEndian.Uint64(k) <= timeNumber(now)
}
