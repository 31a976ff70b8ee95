package storetest

import (
	"slices"
	"testing"
)

// Run runs the suite, or only the tests of these names, for a store that is not whole yet. open
// returns an empty store for each test.
func Run(t *testing.T, open func(t *testing.T) Harness, only ...string) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(*kit)
	}{
		{"Commit_RoundTrip", testRoundTrip},
		{"Commit_LargeValues", testLargeValues},
		{"Commit_Refused", testRefused},
		{"Commit_KeepsWhatOthersWrite", testKeeps},
		{"Commit_BeginsNothingAborted", testBeginsNothingAborted},
		{"Commit_ManyWriters", testManyWriters},
		{"Commit_FailsAlone", testFailsAlone},
		{"Commit_IdempotencyKey", testIdempotency},
		{"Commit_Checkpoints", testCheckpoints},
		{"Commit_EndSupersedes", testEndSupersedes},
		{"Commit_Used", testUsed},
		{"Commit_UsedAsRead", testUsedAsRead},
		{"Commit_Past", testPast},
		{"Commit_PastRefused", testPastRefused},
		{"Remove", testRemove},
		{"Remove_RefusesAll", testRemoveRefused},
		{"Runs_Pages", testRunsPages},
		{"Runs_Filter", testRunsFilter},
		{"Runs_ByState", testRunsByState},
		{"Origin", testOrigin},
		{"Owner", testOwner},
		{"Owner_Renewed", testOwnerRenewed},
		{"Orphans", testOrphans},
		{"Orphans_Waiting", testOrphansWaiting},
		{"Orphans_Expired", testOrphansExpired},
		{"Storm", testStorm},
		{"Find", testFind},
		{"Events", testEvents},
		{"Approvals_Order", testApprovalsOrder},
		{"Approvals_Into", testApprovalsInto},
		{"Approvals_Decidable", testApprovalsDecidable},
		{"Approvals_Agent", testApprovalsAgent},
		{"Unknown", testUnknown},
		{"Decide", testDecide},
		{"DecideEdited", testDecideEdited},
		{"Decide_Shape", testDecideShape},
		{"Used_Within", testUsedWithin},
		{"Decide_Errors", testDecideErrors},
		{"Decide_Again", testDecideAgain},
		{"Decide_OneOfMany", testDecideOneOfMany},
		{"Decide_Abort", testDecideAbort},
		{"Decide_Interrupted", testDecideInterrupted},
		{"Guard", testGuard},
		{"Guard_Human", testGuardHuman},
		{"Guard_Pause", testGuardPause},
		{"Guard_OneOfMany", testGuardOneOfMany},
		{"Halt", testHalt},
		{"Halt_Person", testHaltPerson},
		{"Halt_Time", testHaltTime},
		{"Halt_Extend", testHaltExtend},
		{"Halt_Run", testHaltRun},
		{"Halt_Storm", testHaltStorm},
		{"Extend", testExtend},
		{"Extend_Run", testExtendRun},
		{"Extend_ExpiredRun", testExpiredRunsApprovals},
		{"Renew", testRenew},
		{"Renew_Run", testRenewRun},
		{"Renew_Decide", testDecideRenewed},
		{"Commit_Undecided", testCommitUndecided},
		{"Commit_Relies", testCommitRelies},
		{"Commit_ReliesTogether", testCommitReliesTogether},
		{"Renew_DecideOneOfMany", testDecideRenewedOnce},
		{"RequestAbort", testRequestAbort},
		{"Replan", testReplan},
		{"Replan_Layers", testReplanLayers},
		{"Replan_BeforeEnd", testReplanBeforeEnd},
		{"Expire", testExpire},
		{"Expire_ByNextWriter", testExpireByWriter},
		{"Claim", testClaim},
		{"Claim_Fences", testClaimFences},
		{"Runners", testRunners},
		{"Audit_Chain", testAuditChain},
		{"Audit_Filter", testAuditFilter},
		{"Record", testRecord},
		{"FlowRuns", testFlowRuns},
		{"FlowRuns_Kept", testFlowRunsKept},
		{"FlowVariables", testFlowVariables},
		{"Notices", testNotices},
		{"Watch", testWatch},
		{"Watch_Reopened", testWatchReopened},
		{"Watch_Others", testWatchOthers},
		{"Close", testClose},
	} {
		if len(only) > 0 && !slices.Contains(only, c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(&kit{Harness: open(t), t: t})
		})
	}
	if len(only) > 0 {
		return
	}
	t.Run("CommitFails", func(t *testing.T) {
		t.Parallel()
		runTrials(t, open)
	})
}
